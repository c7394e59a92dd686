"""What a checkpoint folder says of its image and video processor: the values that decide pixels.

In: a folder. Out: for each kind what differs from the published configuration, in transformers'
names, for `processors.base.load`. Files: `processor_config.json`, as transformers 5 writes it, else
`preprocessor_config.json` and `video_preprocessor_config.json`; a folder without them has the
published values.
"""

import json
from pathlib import Path
from typing import Any, Final

from mmload.errors import UsageError
from mmload.processors.arithmetic import MediaKind

Values = dict[MediaKind, dict[str, Any]]

_DECIDES: Final = ("size", "image_mean", "image_std")
_ONE_FILE: Final = "processor_config.json"
_FILES: Final[dict[MediaKind, tuple[str, str]]] = {  # kind -> key in the one file, own file
    "image": ("image_processor", "preprocessor_config.json"),
    "video": ("video_processor", "video_preprocessor_config.json"),
}


def processor_values(folder: Path) -> Values:
    """Raises UsageError for a file that cannot be read."""
    whole = _object(folder / _ONE_FILE)
    found: Values = {}
    for kind, (key, name) in _FILES.items():
        inside = whole.get(key)
        said = inside if isinstance(inside, dict) else _object(folder / name)
        found[kind] = {name: said[name] for name in _DECIDES if said.get(name) is not None}
    return found


def _object(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        said = json.loads(file.read_bytes())
    except ValueError as error:
        raise UsageError(f"{file}: is no JSON: {error}", "mend or remove the file") from error
    return said if isinstance(said, dict) else {}
