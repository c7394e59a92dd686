"""`python -m mmload.server`: the embedded server as a process of its own, one flag a setting."""

import argparse
import sys
from collections.abc import Sequence

from mmload.errors import MmloadError
from mmload.server.serve import serve
from mmload.server.settings import ServerSettings, server_settings


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mmload.server", description=serve.__doc__)
    for name, field in ServerSettings.model_fields.items():
        flag = "--" + name.replace("_", "-")
        action = "store_true" if field.annotation is bool else "store"
        parser.add_argument(flag, action=action, default=argparse.SUPPRESS, help=field.description)
    try:
        serve(server_settings(vars(parser.parse_args(argv))))
    except MmloadError as error:
        hint = f" -- {error.hint}" if error.hint else ""
        print(f"mmload: {error.message}{hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
