"""A short block of Markdown to paste into a pull request: verdict, latencies, split, machine.

In: the summary of docs/summary.md, and the command that repeats the run, if known. Out: Markdown
that renders on GitHub. Words from servers and users are escaped, so that they neither break a table
nor mention anybody.
"""

import re
from collections.abc import Sequence
from typing import Final

from mmload.report import numbers, results, tables, words
from mmload.report.fields import Summary, get, visible

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~@&$])")
_CLASS_ROWS: Final = ("ttft_ms", "e2e_ms")
_QUANTILES: Final = (*tables.QUANTILES, "max")


def render_markdown(summary: Summary, *, command: str = "") -> str:
    """The block, ending in a line break."""
    verdict = words.verdict(summary)
    blocks = [
        f"**{verdict.word}** {escape(verdict.sentence)}",
        *(escape(line) for line in verdict.more),
        _latency(summary),
        *_results(summary),
        _split(summary),
        f"**Bottleneck:** {escape(tables.bottleneck(summary))}",
        _failures(summary),
        _media_check(summary),
        _warnings(summary),
        _facts(summary),
        code_block(command) if command else "",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def escape(text: str) -> str:
    """Text on one line in which no character is markup."""
    return _SPECIAL.sub(r"\\\1", visible(" ".join(text.split()))).replace("\\@", "@\u200b")


def code_block(text: str) -> str:
    """A fenced block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{visible(text.strip())}\n{fence}"


def pipe_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells of `rows` are escaped, those of `head` are not."""
    lines = [head, [":---", *["---:"] * (len(head) - 1)]]
    lines.extend([escape(cell) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _latency(summary: Summary) -> str:
    if not tables.has_latency(summary):
        return tables.NO_LATENCY
    classes = get(summary, "classes") or {}
    sources = [("", summary), *(classes.items() if len(classes) > 1 else ())]
    rows = []
    for name, source in sources:
        for title, dist in tables.latency_rows(source, _CLASS_ROWS if name else tables.SHORT):
            cells = [numbers.ms(get(dist, q)) for q in _QUANTILES]
            full = f"{title}, {name}" if name else title
            rows.append([full, numbers.count(get(dist, "n")), *cells])
    note = escape(tables.simulated_note(summary))
    table = pipe_table(("latency", "n", *_QUANTILES), rows)
    return f"{table}\n\n{note}" if note else table


def _results(summary: Summary) -> list[str]:
    return [
        f"**{title}:** {escape(note)}\n\n{pipe_table([escape(cell) for cell in head], rows)}"
        for title, note, head, rows in results.tables(summary)
    ]


def _split(summary: Summary) -> str:
    columns = tables.split(summary)
    if not columns:
        return ""
    rows = [
        [
            tables.phase_title(summary, phase),
            *(numbers.ms(get(column, "phases", phase)) for _, _, column in columns),
            numbers.percent(tables.share(columns[0][2], phase)),
        ]
        for phase in tables.split_phases(summary)
    ]
    total = [numbers.ms(get(column, "e2e_ms")) for _, _, column in columns]
    rows.append(["E2E, the sum", *total, ""])
    titles = [title for _, title, _ in columns]
    return pipe_table(("time goes to", *titles, f"share of the {titles[0]}"), rows)


def _failures(summary: Summary) -> str:
    lines = [
        f"- {numbers.count(n)} x {escape(kind)}" + (f": {escape(messages[0])}" if messages else "")
        for kind, n, messages in words.failures(summary)
    ]
    return "\n".join(["**Failures:**", "", *lines]) if lines else ""


def _media_check(summary: Summary) -> str:
    lines = [f"- {escape(name)}: {escape(text)}" for name, text in results.media_check(summary)]
    return "\n".join(["**What the server did with the media:**", "", *lines]) if lines else ""


def _warnings(summary: Summary) -> str:
    lines = [
        f"- {escape(message)} {escape(hint)}".rstrip()
        for _, message, hint in words.warnings(summary)
    ]
    return "\n".join(["**Warnings:**", "", *lines]) if lines else ""


def _facts(summary: Summary) -> str:
    lines = [f"- {label}: {escape(text)}" for label, text in words.run_facts(summary)]
    return "\n".join(["**Run:**", "", *lines]) if lines else ""
