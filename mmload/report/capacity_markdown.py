"""A capacity search as a block of Markdown. In: the object of docs/capacity.md."""

from mmload.report import capacity_words, numbers
from mmload.report.capacity_words import Section
from mmload.report.markdown import escape, pipe_table


def render_capacity_markdown(made: Section) -> str:
    """The block, ending in a line break."""
    rows = [
        [
            f"{row['rate']:g}",
            capacity_words.VERDICTS[row["verdict"]],
            f"{row['passed']} of {row['runs']}",
            *(numbers.ms(row[f"{q}_ms"]) for q in ("p50", "p90", "p99")),
            numbers.percent(row["good_share"]),
            numbers.rate(row["goodput_qps"]),
        ]
        for row in made["rates"]
    ]
    title = made["metric"].upper()
    head = ("requests/s", "verdict", "runs passed", f"{title} p50", "p90", "p99")
    facts = [f"- {label}: {escape(text)}" for label, text in capacity_words.facts(made)]
    blocks = [
        f"**{escape(made['sentence'])}**",
        pipe_table((*head, "good", "goodput/s"), rows),
        f"- {escape(capacity_words.knee(made))}",
        f"- {escape(made['predicted']['sentence'])}" if made["predicted"] else "",
        "\n".join(["**Search:**", "", *facts]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"
