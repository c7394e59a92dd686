"""Datasets: JSON lines, each a request of its own with its media and, perhaps, the right answer.

A line is {"prompt", "image" | "images" | "video", "expected", "metric", "max_tokens", "class"},
all of them optional but one of prompt and media. Media are paths, relative to the file, or http(s)
URLs, which are sent as they are. `expected` is a text or a list of texts; `metric` says how an
answer is compared with them.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from mmload.load.prepare.lines import read_lines
from mmload.scenario_types import Model, Prompt, Tokens

Metric = Literal["exact", "contains", "vqa", "yesno"]


def _texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


ClassName = Annotated[str, Field(min_length=1, max_length=60)]
Texts = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1), BeforeValidator(_texts)
]


class DatasetLine(Model):
    """One line of the file."""

    prompt: Prompt | None = None
    image: Annotated[str, Field(min_length=1)] | None = None
    images: Texts | None = None
    video: Annotated[str, Field(min_length=1)] | None = None
    expected: Texts | None = None
    metric: Metric | None = None
    max_tokens: Tokens | None = None
    class_: ClassName | None = Field(default=None, alias="class")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        media = [n for n in ("image", "images", "video") if getattr(self, n) is not None]
        if len(media) > 1:
            raise ValueError(f"{' and '.join(media)}: give one of them")
        if not media and self.prompt is None:
            raise ValueError("neither a prompt nor an image, images or video")
        if self.metric is not None and self.expected is None:
            raise ValueError("metric without expected: give the right answers too")
        return self

    @property
    def media(self) -> tuple[str, ...]:
        """Paths or URLs."""
        if self.video is not None:
            return (self.video,)
        return self.images or (() if self.image is None else (self.image,))

    @property
    def class_name(self) -> str:
        """As named, or by what is shown."""
        if self.class_ is not None:
            return self.class_
        if self.video is not None:
            return "video"
        match len(self.media):
            case 0:
                return "text"
            case 1:
                return "image"
            case several:
                return f"{several} images"


def read_dataset(path: Path) -> list[tuple[str, DatasetLine]]:
    """("FILE:LINE", line) of every line. Raises UsageError that names the file and line."""
    return list(read_lines(path, "--dataset", DatasetLine))


def is_url(named: str) -> bool:
    return named.startswith(("http://", "https://"))
