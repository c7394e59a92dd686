"""JSON lines that users write (traces, datasets, prompts), each checked against a model.

Goes in: a file, and what a line may hold. Comes out: one object a line. Every error is a UsageError
that names the file, the line, the key and what is allowed. Blank lines are passed over.
"""

import difflib
import hashlib
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from mmload.errors import UsageError

M = TypeVar("M", bound=BaseModel)


def read_text(path: Path, flag: str) -> str:
    """The whole file. Raises UsageError if it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"{flag} {path}: cannot be read: {error.strerror}", "name a file that exists"
        ) from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{flag} {path}: not UTF-8: {error.reason}", "save it as UTF-8") from None


def count_lines(path: Path, flag: str) -> int:
    """How many lines hold something."""
    return sum(1 for line in read_text(path, flag).splitlines() if line.strip())


def file_hash(path: Path, flag: str) -> str:
    """The file's contents, as they enter the scenario's digest."""
    try:
        return f"{flag.lstrip('-')} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    except OSError as error:
        raise UsageError(
            f"{flag} {path}: cannot be read: {error.strerror}", "name a file that exists"
        ) from None


def read_lines(path: Path, flag: str, model: type[M]) -> Iterator[tuple[str, M]]:
    """("FILE:LINE", checked object) for every line. Fractions come as exact decimals."""
    empty = True
    for number, line in enumerate(read_text(path, flag).splitlines(), 1):
        if not line.strip():
            continue
        empty = False
        where = f"{path}:{number}"
        try:
            values = json.loads(line, parse_float=Decimal)
        except ValueError as error:
            raise UsageError(f"{where}: not JSON: {error}", "write one object a line") from None
        if not isinstance(values, dict):
            raise UsageError(f"{where}: not a JSON object", "write one object a line")
        try:
            yield where, model.model_validate(values)
        except ValidationError as error:
            raise _usage_error(error, where, model) from None
    if empty:
        raise UsageError(f"{flag} {path}: holds no lines", "write one object a line")


def _usage_error(error: ValidationError, where: str, model: type[BaseModel]) -> UsageError:
    first = error.errors()[0]
    key = str(first["loc"][0]) if first["loc"] else ""
    known = [info.alias or name for name, info in model.model_fields.items()]
    allowed = f"keys of a line: {', '.join(known)}"
    if first["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, known, n=1)
        return UsageError(f"{where}: {key}: no such key", _meant(close) or allowed)
    message = first["msg"].removeprefix("Value error, ")
    if not key:
        return UsageError(f"{where}: {message}", allowed)
    if first["type"] == "missing":
        return UsageError(f"{where}: {key} is missing", allowed)
    return UsageError(f"{where}: {key}: {first['input']!r} is not allowed: {message}", allowed)


def _meant(close: list[str]) -> str:
    return f"did you mean {close[0]}?" if close else ""
