"""What of a server's command, environment and words must not be written down.

A value counts as a secret if a part of its name says so: `--api-key`, `HF_TOKEN`, `DB_PASSWORD`,
but not `--max-num-batched-tokens` or `--ssl-keyfile`. In: words as they were typed. Out: the same
with `***` in the place of such values, and the values themselves, for `load.redact` to strike out
of what the server says. Nothing here looks at more of the environment than names ask for.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

HIDDEN: Final = "***"
SHORTEST: Final = 6  # characters: shorter values stand in too many other words of a log
SHORTEST_INHERITED: Final = 8  # nobody gave those to this server

_SECRET_NAME: Final = re.compile(
    r"(?:key|token|secret|password|passwd|credentials?)(?![a-z])", re.IGNORECASE
)
_PLAIN: Final = re.compile(r"[\w@%+=:,./{}*-]+")  # braces and stars are ours: {port} and ***
_NAMED: Final = re.compile(r"^(-{0,2}[A-Za-z_][\w.-]*)=(.*)$", re.DOTALL)
_IN_JSON: Final = re.compile(r'"([\w.-]+)"(\s*:\s*)"((?:[^"\\]|\\.)*)"')
_IN_URL: Final = re.compile(r"(?<=://)([^/@\s]+)(?=@)")


def is_secret(name: str) -> bool:
    """Whether a flag or variable of that name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def hide_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that were asked for, fit to be written down."""
    return {name: HIDDEN if is_secret(name) else hide_inside(v) for name, v in env.items()}


def hide_words(argv: Sequence[str]) -> str:
    """The command, fit to be written down, and quoted where a shell needs it."""
    return " ".join(
        shown if _PLAIN.fullmatch(shown) else shlex.quote(shown) for shown, _ in _judged(argv)
    )


def hide_inside(text: str) -> str:
    """One value without the secrets that stand in it: in JSON, or in a URL."""

    def hidden(found: re.Match[str]) -> str:
        name, colon, _ = found.groups()
        return f'"{name}"{colon}"{HIDDEN}"' if is_secret(name) else found.group()

    return _IN_URL.sub(HIDDEN, _IN_JSON.sub(hidden, text))


def secrets_of(
    argv: Sequence[str], env: Mapping[str, str], inherited: Mapping[str, str]
) -> tuple[str, ...]:
    """Every secret value that the server knows of, to be struck out of what it says."""
    given = [secret for _, secrets in _judged(argv) for secret in secrets]
    for name, value in env.items():
        given += [value] if is_secret(name) else _secrets_inside(value)
    found = {value for value in given if len(value) >= SHORTEST}
    found |= {v for n, v in inherited.items() if is_secret(n) and len(v) >= SHORTEST_INHERITED}
    return tuple(sorted(found, key=len, reverse=True))


def _judged(argv: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each word as it may be shown, and the secrets in it. A flag's values go on to the next flag,
    since some take several."""
    secret_flag = False
    for word in argv:
        named = _NAMED.match(word)
        if word.startswith("-"):
            secret_flag = named is None and is_secret(word)
            flag_itself = True
        else:
            flag_itself = False
        if named is not None and is_secret(named[1]):
            yield f"{named[1]}={HIDDEN}", [named[2]]
        elif secret_flag and not flag_itself:
            yield HIDDEN, [word]
        else:
            yield hide_inside(word), _secrets_inside(word)


def _secrets_inside(text: str) -> list[str]:
    in_json = [value for name, _, value in _IN_JSON.findall(text) if is_secret(name)]
    in_url = [part for whole in _IN_URL.findall(text) for part in (whole, whole.partition(":")[2])]
    return in_json + [part for part in in_url if part]
