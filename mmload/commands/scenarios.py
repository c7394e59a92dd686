"""`mmload scenarios`: what ships with the tool."""

from mmload.scenario_file import load_scenario, shipped


def scenarios() -> None:
    """List the scenarios that come with mmload, each with what it shows."""
    for name, path in shipped().items():
        first, *_ = path.read_text(encoding="utf-8").splitlines()
        load_scenario(str(path), {})  # what is listed can be run
        print(f"{name:16} {first.removeprefix('# ')}")
