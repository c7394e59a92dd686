"""A capacity search's files: summary.json, report.html and report.md, into its folder."""

from pathlib import Path

from mmload.report.capacity_html import render_capacity_html
from mmload.report.capacity_markdown import render_capacity_markdown
from mmload.report.capacity_words import Section
from mmload.rundir import RunDir


def write_capacity(path: Path, made: Section) -> None:
    """Raises OSError when the disk does not take them."""
    folder = RunDir(path)
    folder.write_json("summary.json", made)
    folder.write_text("report.html", render_capacity_html(made))
    folder.write_text("report.md", render_capacity_markdown(made))
