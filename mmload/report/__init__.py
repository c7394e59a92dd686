"""Renders a summary (docs/summary.md) for people: terminal, HTML, Markdown; exports its records.

`words` and `tables` turn the summary into text and rows once, so that every format says the same;
the renderers only lay it out. Nothing here measures or decides; only `files` touches a run folder.
"""
