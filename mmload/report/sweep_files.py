"""A sweep's files: summary.json, report.html and report.md, into its folder."""

from pathlib import Path

from mmload.report.sweep_html import render_sweep_html
from mmload.report.sweep_markdown import render_sweep_markdown
from mmload.report.sweep_words import Section
from mmload.rundir import RunDir


def write_sweep(path: Path, made: Section) -> None:
    """Raises OSError when the disk does not take them."""
    folder = RunDir(path)
    folder.write_json("summary.json", made)
    folder.write_text("report.html", render_sweep_html(made))
    folder.write_text("report.md", render_sweep_markdown(made))
