"""What a user's file is, from its header alone, and which files a folder holds.

Goes in: a path. Comes out: `FileFacts`, or a list of paths. Named before a run starts: an empty
file, text called .png, a JPEG cut short. Image headers are read here (`headers`); of a video the
boxes are walked and OpenCV is asked for size and frame count, but no frame is decoded, so the count
is what the header claims. Files are only read.
"""

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mmload.errors import UsageError
from mmload.load.media import MediaKind, mpeg4
from mmload.load.media.headers import Oddity, read_header
from mmload.load.media.opencv import cv2

SUFFIXES: Final[dict[str, str]] = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".bmp": "image/bmp",
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".avi": "video/x-msvideo",
}
# These make a file useless; all others are harmless when it is sent as its own bytes.
FATAL: Final = frozenset(
    {Oddity.empty, Oddity.unknown, Oddity.truncated, Oddity.damaged, Oddity.undecodable}
)
STILL_BRANDS: Final = frozenset({b"avif", b"avis", b"heic", b"heix", b"mif1", b"msf1"})


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A media file by its header. `width` and `height` as displayed, 0 if unknown."""

    path: Path
    kind: MediaKind
    mime: str  # by content; by name where the content is not known
    width: int
    height: int
    frames: int  # as the header says; 0 if it does not
    oddities: tuple[Oddity, ...] = ()
    orientation: int = 1  # EXIF, of an image


def probe(path: Path) -> FileFacts:
    """Facts about a file. Strange content is an oddity; only a file that cannot be read raises."""
    named = SUFFIXES.get(path.suffix.lower(), "application/octet-stream")
    kind: MediaKind = "video" if named.startswith("video/") else "image"
    try:
        with path.open("rb") as file:
            start = file.read(64)
            if not start:
                return FileFacts(path, kind, named, 0, 0, 0, (Oddity.empty,))
            video = _video_mime(start)
            data = start + file.read() if video is None else b""
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}", "name a file that exists and is readable"
        ) from error
    if video is not None:
        return _probe_video(path, video, _other_suffix(path, video))
    header = read_header(data)
    if header is None:
        return FileFacts(path, kind, named, 0, 0, 0, (Oddity.unknown,))
    turned = header.orientation >= 5  # by a quarter
    return FileFacts(
        path,
        "image",
        header.mime,
        header.height if turned else header.width,
        header.width if turned else header.height,
        header.frames,
        (*header.oddities, *_other_suffix(path, header.mime)),
        header.orientation,
    )


def check(facts: FileFacts) -> None:
    """Raises UsageError that names the file and its oddity, unless all of them are harmless."""
    for oddity in facts.oddities:
        if oddity in FATAL:
            raise UsageError(f"{facts.path}: {oddity}", "replace the file, or leave it out")


def find_media(path: Path) -> list[Path]:
    """A file as itself; of a folder its media files by suffix, sorted by name, not its subfolders.

    Hidden files are passed over. Raises UsageError for a folder with other files, or with no media.
    """
    if not path.is_dir():
        if not path.exists():
            raise UsageError(f"{path}: there is no such file or folder", "check the path")
        return [path]
    looked_for = ", ".join(SUFFIXES)
    try:
        files = sorted(entry for entry in path.iterdir() if entry.is_file())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", "check its rights") from error
    files = [file for file in files if not file.name.startswith(".")]
    for file in files:
        if file.suffix.lower() not in SUFFIXES:
            raise UsageError(
                f"{file}: not the name of an image or video ({looked_for})",
                "move it out of the folder, or name the media files one by one",
            )
    if not files:
        raise UsageError(
            f"{path}: no images or videos in this folder ({looked_for})",
            "name the folder that holds the files themselves",
        )
    return files


def _other_suffix(path: Path, mime: str) -> tuple[Oddity, ...]:
    named = SUFFIXES.get(path.suffix.lower())
    # MP4 and QuickTime are one format under two names.
    same = {named, mime} <= {"video/mp4", "video/quicktime"} or named in (None, mime)
    return () if same else (Oddity.other_suffix,)


def _video_mime(start: bytes) -> str | None:
    """The type of a video file by its first bytes; None if it is none."""
    if start[4:8] == b"ftyp":
        if start[8:12] in STILL_BRANDS:
            return None
        return "video/quicktime" if start[8:12] == b"qt  " else "video/mp4"
    if start[4:8] in (b"moov", b"mdat", b"wide"):
        return "video/quicktime"
    if start.startswith(b"\x1a\x45\xdf\xa3"):
        return "video/webm" if b"webm" in start else "video/x-matroska"
    if start.startswith(b"RIFF") and start[8:12] == b"AVI ":
        return "video/x-msvideo"
    return None


def _probe_video(path: Path, mime: str, oddities: tuple[Oddity, ...]) -> FileFacts:
    if mime in ("video/mp4", "video/quicktime") and not _boxes_whole(path):
        oddities = (Oddity.truncated, *oddities)
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    try:
        if not capture.isOpened():
            if Oddity.truncated not in oddities:
                oddities = (Oddity.undecodable, *oddities)
            return FileFacts(path, "video", mime, 0, 0, 0, oddities)
        capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
        if capture.get(cv2.CAP_PROP_ORIENTATION_META):
            oddities = (*oddities, Oddity.rotated)
        width, height, frames = (
            max(0, int(capture.get(what)))
            for what in (
                cv2.CAP_PROP_FRAME_WIDTH,
                cv2.CAP_PROP_FRAME_HEIGHT,
                cv2.CAP_PROP_FRAME_COUNT,
            )
        )
    finally:
        capture.release()
    return FileFacts(path, "video", mime, width, height, frames, oddities)


def _boxes_whole(path: Path) -> bool:
    """Whether an MP4 file's boxes reach its end and have the index among them."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return any(box.kind == b"moov" for box in list(mpeg4.boxes(data, 0, len(data))))
        except ValueError:
            return False
