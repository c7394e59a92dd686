"""The report's files in a run folder: read, analyse, write summary.json and report.html."""

from mmload.analysis.summary import Analysis, summarise
from mmload.records import RecordTable
from mmload.report.html import render_html
from mmload.rundir import RunDir


def analyse(run: RunDir) -> Analysis:
    """Everything that a run's data says; reads the folder, writes nothing."""
    manifest = run.manifest()
    records = run.records()
    table = RecordTable.of(records)
    spans = run.spans()
    return summarise(manifest, run.end(), table, spans, spans.processes, records.damaged)


def write_report(run: RunDir) -> Analysis:
    """Analyses a run and writes its report into its folder."""
    analysis = analyse(run)
    run.write_json("summary.json", analysis.summary)
    run.write_text("report.html", render_html(analysis.summary, analysis.series))
    return analysis
