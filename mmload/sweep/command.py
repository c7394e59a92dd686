"""A server's command line with a point's settings in it. Pure.

In: the words after `--`, settings and variables. Out: words. A setting takes the place of the same
flag where the command has it (`--flag value` or `--flag=value`), of `{flag}` where a word has that,
and is appended otherwise. "on" is the flag alone, "off" is `--no-flag`, unset leaves it out.
Variables are set, and unset, by `env` in front.
"""

from collections.abc import Mapping, Sequence

from mmload.sweep.axes import Value, show


def server_command(
    base: Sequence[str], settings: Mapping[str, Value], variables: Mapping[str, Value]
) -> list[str]:
    """The whole command, variables included."""
    words = with_settings(base, settings)
    if not variables:
        return words
    unset = [word for name, v in variables.items() if v is None for word in ("-u", name)]
    return [
        "env",
        *unset,
        *(f"{n}={show(v)}" for n, v in variables.items() if v is not None),
    ] + words


def with_settings(base: Sequence[str], settings: Mapping[str, Value]) -> list[str]:
    words = list(base)
    for name, value in settings.items():
        words = _with(words, name, value)
    return words


def _with(words: list[str], name: str, value: Value) -> list[str]:
    place = "{" + name + "}"
    if any(place in word for word in words):
        text = "" if value is None else show(value)
        replaced = [word.replace(place, text) for word in words]
        return [new for old, new in zip(words, replaced, strict=True) if new or not old]
    kept: list[str] = []
    i = 0
    at = None
    flag, negative = f"--{name}", f"--no-{name}"
    while i < len(words):
        word = words[i]
        if word in (flag, negative) or word.startswith(f"{flag}="):
            at = len(kept) if at is None else at
            follows = i + 1 < len(words) and not words[i + 1].startswith("-")
            i += 2 if word == flag and follows else 1
            continue
        kept.append(word)
        i += 1
    at = len(kept) if at is None else at
    return [*kept[:at], *_flag(name, value), *kept[at:]]


def _flag(name: str, value: Value) -> list[str]:
    if value is None:
        return []
    if value in (True, "on"):
        return [f"--{name}"]
    if value in (False, "off"):
        return [f"--no-{name}"]
    return [f"--{name}={show(value)}"]
