"""The report's files in a run folder: read, analyse, write summary.json and report.html."""

from mmload.analysis.answers import Grader
from mmload.analysis.summary import Analysis, summarise
from mmload.profiler import files as profiles
from mmload.profiler.cake import cake
from mmload.records import RecordTable
from mmload.report.html import render_html
from mmload.rundir import RunDir, RunEnd


def analyse(run: RunDir, end: RunEnd | None = None) -> Analysis:
    """Everything that a run's data says; reads the folder, writes nothing. `end` is how the run
    ended, for one that has just done so and may not have been able to write it down."""
    manifest = run.manifest()
    expected, records, spans = run.expected(), run.records(), run.spans()
    grader = Grader(expected)
    table = RecordTable.of(grader.through(records))
    damaged = expected.damaged + records.damaged
    answers = grader.section()
    end = end or run.end()
    session = profiles.read(run.path)
    return summarise(
        manifest,
        end,
        table,
        spans,
        spans.processes,
        damaged,
        answers=answers,
        samples=run.samples(),
        profile=cake(session) if session is not None else None,
    )


def write_files(run: RunDir, analysis: Analysis, *, html: bool = True) -> None:
    """Writes the report into the run's folder. Raises OSError when the disk does not take it."""
    run.write_json("summary.json", analysis.summary)
    if html:
        run.write_text("report.html", render_html(analysis.summary, analysis.series))
