"""A sweep as a block of Markdown for a pull request: the sentence, the axes, the points, the rest.

In: the object of docs/sweep.md. Out: Markdown that renders on GitHub.
"""

from mmload.report import numbers, sweep_words
from mmload.report.markdown import code_block, escape, pipe_table
from mmload.report.sweep_words import Section


def render_sweep_markdown(made: Section) -> str:
    """The block, ending in a line break."""
    advice = made["recommendation"]
    command = advice.get("command", "") if advice else ""
    facts = [f"- {label}: {escape(text)}" for label, text in sweep_words.facts(made)]
    failed = [f"- {escape(label)}: {escape(why)}" for label, why in sweep_words.failures(made)]
    blocks = [
        f"**{escape(made['sentence'])}**",
        code_block(command) if command else "",
        _effects(made),
        "\n".join(f"- {escape(effect['sentence'])}" for effect in made["effects"]),
        _points(made),
        "\n".join(f"- {escape(sentence)}" for sentence in sweep_words.pareto(made)),
        "\n".join(["**Runs that are not valid:**", "", *failed]) if failed else "",
        "\n".join(["**Sweep:**", "", *facts]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _effects(made: Section) -> str:
    rows = [
        [
            f"{effect['name']} {sweep_words.value(level['value'])} against"
            f" {sweep_words.value(effect['reference'])}",
            sweep_words.change(level["ratio"]),
            sweep_words.interval(level),
            sweep_words.p_value(level["p_adjusted"]),
            sweep_words.VERDICTS[effect["verdict"]],
        ]
        for effect in made["effects"]
        for level in effect["levels"]
    ]
    head = (f"change of {made['objective']['title']}", "change", "95% interval", "p (Holm)", "axis")
    return pipe_table(head, rows) if rows else ""


def _points(made: Section) -> str:
    best = sweep_words.best_points(made)
    rows = [
        [
            f"{point['label']}{' (recommended)' if point['point'] in best else ''}",
            str(point["valid_runs"]),
            *(numbers.ms(point["ttft_ms"][q]) for q in ("p50", "p90", "p99")),
            sweep_words.queue(point),
            *(numbers.ms(point["phases_ms"].get(name)) for name in ("queueing", "cpu")),
            numbers.rate(point["capacity_qps"]),
            numbers.rate(point["cpu_cores"]),
        ]
        for point in made["points"]
    ]
    head = ("TTFT", "runs", "p50", "p90", "p99", "queue")
    return pipe_table((*head, "queueing", "CPU preprocessing", "capacity/s", "CPU cores"), rows)
