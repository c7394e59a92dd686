"""The cake on a terminal: a section of the report, or by itself after `mmload profile`."""

import sys
from typing import TextIO

from mmload.report import cake
from mmload.report.console import WIDE, Page, width_of, write
from mmload.report.fields import Summary, get


def render_profile(
    profile: Summary, *, color: bool = False, out: TextIO | None = None, folder: str = ""
) -> None:
    """Prints a profile, the `profile` of a summary, to `out` (stdout)."""
    out = sys.stdout if out is None else out
    page = Page(min(width_of(out), WIDE), color)
    cake_section(page, {"profile": profile}, cake.TOP_SHOWN)
    if folder:
        page.heading("Files")
        page.facts([("folder", folder), ("in it", "profile.json, profile.speedscope.json")])
    write(page.text(), out)


def cake_section(page: Page, summary: Summary, functions: int = 0) -> None:
    """Sentences, layers, and the first few functions; nothing without a profile."""
    profile = get(summary, "profile")
    if not profile:
        return
    page.heading(cake.TITLE)
    for sentence in cake.sentences(profile):
        page.line(sentence)
    for title, note, head, rows in (cake.layers(profile), cake.functions(profile, functions)):
        if rows:
            table = page.columns(*head)
            for row in rows:
                page.row(table, row)
            if title != cake.TITLE:
                page.heading(title, note)
            page.put(table)
