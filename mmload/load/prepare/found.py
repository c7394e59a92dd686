"""A user's files as media sets: as they are unless something else is asked, and named if strange.

Files go as their own bytes (varied only if reuse is declared); a size, a format, or `reencode` has
them decoded and encoded again. Of clips the asked number of frames is cut out and encoded.
"""

from collections.abc import Sequence
from pathlib import Path

from mmload.errors import UsageError
from mmload.load.media import Media, files, images, probe, videos
from mmload.load.media.images import ImageFormat
from mmload.load.prepare.made import as_asked, form_of, pixels_of
from mmload.load.prepare.pool import MediaSet, PoolBuilder
from mmload.scenario import Scenario
from mmload.scenario_types import AS_FILE, Form, MediaClass


class Files:
    """Reads files for one scenario; what they are goes into the builder's notes."""

    def __init__(self, scenario: Scenario, builder: PoolBuilder) -> None:
        self._scenario = scenario
        self._builder = builder
        self._facts: dict[Path, probe.FileFacts] = {}

    def facts(self, path: Path) -> probe.FileFacts:
        """What a file is. Raises UsageError if it is strange, unless such files are asked for."""
        if path not in self._facts:
            facts = self._facts[path] = probe.probe(path)
            if not self._scenario.send_invalid:
                probe.check(facts)
            if facts.oddities:
                self._builder.notes[f"{path.name}: {', '.join(facts.oddities)}"] = None
        return self._facts[path]

    def groups(self, cls: MediaClass) -> list[tuple[str, float, list[MediaSet], Form | None]]:
        """Name, weight, sets and form of what a class's file or folder holds for it.

        One group, but for files as they are: images and videos are two then, each by its share.
        """
        path = Path(str(cls.media))
        facts = [self.facts(file) for file in probe.find_media(path)]
        if cls.frames == AS_FILE:
            kinds = sorted({f.kind for f in facts})
            groups = []
            for kind in kinds:
                own = [f for f in facts if f.kind == kind]
                size = f" {cls.size}" if cls.size else ""
                name = f"{kind}{size}" if cls.name is None else cls.name
                if cls.name is not None and len(kinds) > 1:
                    name = f"{cls.name}, {kind}"
                form: Form | None = "video" if kind == "video" else None
                weight = cls.weight * len(own) / len(facts)
                groups.append((name, weight, self._sets(cls, own), form))
            return groups
        kind = "image" if cls.frames == 1 else "video"
        fitting = [f for f in facts if f.kind == kind]
        if cls.frames == 1 and not fitting:
            fitting = facts  # a frame of each clip
        if not fitting:
            raise UsageError(
                f"--media {path}: no {kind} for {cls.frames} frames a request",
                f"add {kind} files, or ask for other --frames",
            )
        return [(cls.title, cls.weight, self._sets(cls, fitting), form_of(cls))]

    def _sets(self, cls: MediaClass, facts: Sequence[probe.FileFacts]) -> list[MediaSet]:
        return [self.media_set(cls, f) for f in facts]

    def media_set(self, cls: MediaClass, facts: probe.FileFacts) -> MediaSet:
        """One file as a class wants it."""
        made = self._image(cls, facts) if facts.kind == "image" else self._video(cls, facts)
        for medium in made.media:
            if isinstance(medium, Media):
                self._builder.add_file(medium)
        return made

    def _image(self, cls: MediaClass, facts: probe.FileFacts) -> MediaSet:
        scenario = self._scenario
        fmt: ImageFormat | None = scenario.format
        if scenario.reencode and fmt is None:
            own = facts.mime.removeprefix("image/")
            fmt = next((f for f in images.FORMATS if f == own), "jpeg")
        medium = files.image_file(
            facts.path,
            size=None if cls.size is None else pixels_of(cls.size),
            fmt=fmt,
            quality=scenario.quality,
            varied=scenario.reuse is not None,
            as_is=scenario.send_invalid,
        )
        return MediaSet((medium,))

    def _video(self, cls: MediaClass, facts: probe.FileFacts) -> MediaSet:
        scenario = self._scenario
        size = None if cls.size is None else pixels_of(cls.size)
        if cls.frames != AS_FILE:
            assert isinstance(cls.frames, int)
            frames = files.extract_frames(facts.path, cls.frames, size=size)
            return as_asked(scenario, cls, frames, facts.path.name)
        if size is None and not scenario.reencode:
            return MediaSet((files.video_file(facts.path, as_is=scenario.send_invalid),))
        fps = scenario.fps if "fps" in scenario.given else files.frame_rate(facts.path)
        frames = files.extract_frames(facts.path, None, size=size)
        return MediaSet((videos.encode_mp4(frames, fps, facts.path.name),))
