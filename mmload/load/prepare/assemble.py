"""From a scenario and its schedule to the pool of all that the run may send: the media are made.

Goes in: the scenario (classes, files, dataset, prompts), the schedule (how many requests, cameras,
the trace's own classes). Comes out: `MediaPool`. Raises UsageError that names the file at fault.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mmload.errors import UsageError
from mmload.load.media import probe
from mmload.load.prepare.dataset import DatasetLine, is_url, read_dataset
from mmload.load.prepare.found import Files
from mmload.load.prepare.lines import file_hash
from mmload.load.prepare.made import contents, filmed, form_of, moments, synthetic_set
from mmload.load.prepare.pool import Link, MediaPool, MediaSet, PoolBuilder, Script, class_scripts
from mmload.load.prepare.prompts import read_prompts
from mmload.load.prepare.times import Schedule
from mmload.load.prepare.trace import BY_THE_MIX, Trace
from mmload.load.schedule import exact_shares, seeded, shuffled
from mmload.scenario import Scenario
from mmload.scenario_types import AS_FILE, MediaClass

DEFAULT_METRIC = "contains"


def media(scenario: Scenario, schedule: Schedule) -> MediaPool:
    """Makes or reads the media of every class."""
    return _Assembly(scenario, schedule).pool()


class _Assembly:
    def __init__(self, scenario: Scenario, schedule: Schedule) -> None:
        self.scenario = scenario
        self.schedule = schedule
        self.builder = PoolBuilder()
        self.files = Files(scenario, self.builder)
        self.made: dict[MediaClass, list[int]] = {}  # numbers of the scenario's own classes
        self.inputs: list[str] = []  # contents of the files that are not media
        self.prompts: tuple[str, ...] = (scenario.prompt,)
        if scenario.prompts is not None:
            self.prompts = read_prompts(Path(scenario.prompts))
            self.inputs.append(file_hash(Path(scenario.prompts), "--prompts"))

    def pool(self) -> MediaPool:
        scenario, trace = self.scenario, self.schedule.trace
        if scenario.cameras is not None:
            return self._cameras(scenario.cameras)
        lines = self._dataset(Path(scenario.dataset)) if scenario.dataset is not None else None
        by_the_mix, own = self.schedule.sources, Counter[MediaClass]()
        if trace is not None:
            by_the_mix = int(np.count_nonzero(trace.media_class == BY_THE_MIX))
            own = self._traced(trace)
        mixed: tuple[int, ...] = ()
        if lines is None and (by_the_mix or not own):
            mixed = self._mix(by_the_mix, own)
        numbers = {cls: self._own_class(cls, requests) for cls, requests in own.items()}
        described = trace.classes if trace is not None else ()
        of_trace = tuple(numbers[scenario.completed(cls)] for cls in described)
        builder = self.builder
        files = bool(builder.hashes) or scenario.dataset is not None
        return builder.build(
            reuse=scenario.reuse if files else scenario.reuse or 0.0,
            file_hashes=(*sorted(builder.hashes), *self.inputs),
            mixed=mixed,
            lines=lines,
            trace_classes=of_trace,
        )

    def _mix(self, requests: int, traced: Mapping[MediaClass, int]) -> tuple[int, ...]:
        """The scenario's own classes, made for so many requests and those lines of a trace."""
        scenario = self.scenario
        weights = [cls.weight for cls in scenario.classes]
        shares = exact_shares(weights, requests + scenario.warmup_most)
        # Warm-up goes through the classes in turn, so each may need more than its share.
        warm_up = -(-scenario.warmup_most // len(weights))
        made: list[int] = []
        for cls, share in zip(scenario.classes, shares, strict=True):
            numbers = self._class(cls, share + traced.get(cls, 0), warm_up)
            self.made[cls] = numbers
            made += numbers
        return tuple(made)

    def _class(self, cls: MediaClass, requests: int, warm_up: int) -> list[int]:
        """A class's numbers: one, but for folders of images and videos sent as they are."""
        builder, scenario = self.builder, self.scenario
        scripts = class_scripts(builder, cls, self.prompts, scenario.turns)
        if cls.media is None or cls.frames == 0:
            number = len(builder.classes)
            sets = [
                builder.add_set(synthetic_set(scenario, cls, number, k))
                for k in range(contents(scenario, cls, requests, warm_up))
            ]
            return [builder.add_class(cls.title, cls.weight, sets, scripts, form_of(cls))]
        return [
            builder.add_class(name, weight, [*map(builder.add_set, sets)], scripts, form)
            for name, weight, sets, form in self.files.groups(cls)
        ]

    def _traced(self, trace: Trace) -> "Counter[MediaClass]":
        """How many lines each class has that the trace describes itself, in the trace's order."""
        self.inputs.append(trace.hash)
        own: Counter[MediaClass] = Counter()
        for number, described in enumerate(trace.classes):
            cls = self.scenario.completed(described)
            if self.scenario.dataset is not None:
                raise UsageError(
                    f"--trace {self.scenario.trace}: has lines with media of their own, and"
                    " --dataset says what is sent",
                    "leave one of them out",
                )
            if cls.frames == AS_FILE and cls.media is None:
                raise UsageError(
                    f'--trace {self.scenario.trace}: "frames": "file" without "media"',
                    "name the file",
                )
            own[cls] += int(np.count_nonzero(trace.media_class == number))
        return own

    def _own_class(self, cls: MediaClass, requests: int) -> int:
        """A class of the trace: one of the scenario's, where that is the same."""
        numbers = self.made.get(cls) or self._class(cls, requests, self.scenario.warmup_most)
        if len(numbers) > 1:
            raise UsageError(
                f"--trace {self.scenario.trace}: {cls.media} holds both images and videos",
                'say by "frames" which of them a line sends, or name a file',
            )
        return numbers[0]

    def _cameras(self, cameras: int) -> MediaPool:
        scenario, builder = self.scenario, self.builder
        schedule = self.schedule
        assert schedule.turn is not None
        requests = int(schedule.turn.max()) + 1 + scenario.warmup_most
        shares = exact_shares([cls.weight for cls in scenario.classes], cameras)
        filming: list[tuple[int, ...]] = []
        of_class: list[int] = []
        for number, (cls, share) in enumerate(zip(scenario.classes, shares, strict=True)):
            if not share:
                raise UsageError(
                    f"--cameras {cameras}: none is left for {cls.title!r}",
                    "give more cameras than there are classes",
                )
            scripts = class_scripts(builder, cls, self.prompts, 1)
            count = moments(scenario, cls, cameras, requests)
            own = [
                tuple(map(builder.add_set, filmed(scenario, cls, number, camera, count)))
                for camera in range(share)
            ]
            sets = [s for camera in own for s in camera]
            builder.add_class(cls.title, cls.weight, sets, scripts, form_of(cls))
            filming += own
            of_class += [number] * share
        # Which camera is of which class must not follow from when it begins.
        order = shuffled(range(cameras), seeded(scenario.seed, "mix"))
        return builder.build(
            reuse=scenario.reuse or 0.0,
            file_hashes=tuple(self.inputs),
            cameras=tuple(filming[k] for k in order),
            camera_class=tuple(of_class[k] for k in order),
        )

    # -- datasets ------------------------------------------------------------------------------

    def _dataset(self, path: Path) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        """Adds a class for each kind of line; gives the class of each line in sending order."""
        scenario, builder = self.scenario, self.builder
        self.inputs.append(file_hash(path, "--dataset"))
        lines = read_dataset(path)
        if scenario.order == "shuffled":
            order = shuffled(range(len(lines)), seeded(scenario.seed, "mix"))
            lines = [lines[k] for k in order]
        names: dict[str, int] = {}
        sets: list[list[int]] = []
        scripts: list[list[int]] = []
        for where, line in lines:
            number = names.setdefault(line.class_name, len(names))
            if number == len(sets):
                sets.append([])
                scripts.append([])
            sets[number].append(builder.add_set(self._line_media(path, where, line)))
            scripts[number].append(builder.add_script(self._line_script(line)))
        for name, number in names.items():
            shown = {builder.sets[s].kind for s in sets[number]}
            form = scenario.as_ if shown == {"video"} else None
            builder.add_class(
                name, len(sets[number]), sets[number], scripts[number], form, tied=True
            )
        return np.array([names[line.class_name] for _, line in lines], np.int32)

    def _line_script(self, line: DatasetLine) -> Script:
        scenario = self.scenario
        return Script(
            prompts=(line.prompt or scenario.prompt,),
            max_tokens=line.max_tokens or scenario.max_tokens,
            expected=line.expected or (),
            metric=(line.metric or DEFAULT_METRIC) if line.expected else "",
        )

    def _line_media(self, path: Path, where: str, line: DatasetLine) -> MediaSet:
        kind = "image" if line.video is None else "video"
        if not line.media:
            return MediaSet()
        sets = []
        for named in line.media:
            if is_url(named):
                sets.append(MediaSet((Link("image" if kind == "image" else "video", named),)))
                continue
            facts = self._line_facts(path.parent / named, where)
            if facts.kind != kind:
                raise UsageError(
                    f"{where}: {kind}: {named}: a file of another kind: {facts.kind}",
                    f'write "{facts.kind}" instead',
                )
            sets.append(self.files.media_set(self._line_class(kind), facts))
        joined = any(s.joined for s in sets)
        return MediaSet(tuple(m for s in sets for m in s.media), joined)

    def _line_class(self, kind: str) -> MediaClass:
        frames = (self.scenario.frames or (AS_FILE,))[0] if kind == "video" else 1
        return self.scenario.completed(MediaClass(frames=frames))

    def _line_facts(self, file: Path, where: str) -> probe.FileFacts:
        try:
            return self.files.facts(file)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}", error.hint) from None
