"""Prompts from a file: text, one a line, or JSON lines with a "prompt".

A file is JSON lines if its name ends in .jsonl; of any other, every line that is not blank is a
prompt.
"""

from pathlib import Path

from mmload.errors import UsageError
from mmload.load.prepare.lines import read_lines, read_text
from mmload.scenario_types import Model, Prompt


class PromptLine(Model):
    """One line of a .jsonl file of prompts."""

    prompt: Prompt


def read_prompts(path: Path) -> tuple[str, ...]:
    """The prompts in their order. Raises UsageError that names the file and line."""
    if path.suffix.lower() == ".jsonl":
        return tuple(line.prompt for _, line in read_lines(path, "--prompts", PromptLine))
    lines = read_text(path, "--prompts").splitlines()
    prompts = tuple(line.strip() for line in lines if line.strip())
    if not prompts:
        raise UsageError(f"--prompts {path}: holds no prompts", "write one prompt a line")
    return prompts
