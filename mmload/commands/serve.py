"""`mmload serve`: the embedded server alone, for trying things out."""

from typing import Any

from mmload.flags import flags_of, given, spread
from mmload.server.serve import serve as run_server
from mmload.server.settings import ServerSettings, server_settings

ServeFlags = flags_of(ServerSettings, "Server")


def serve(*, settings: Any = None) -> None:
    """Run the embedded server: real HTTP, media decoding and preprocessing in front of a simulated
    accelerator, or of a real model (--engine torch). Set MMLOAD_HOOK_DIR to a folder to trace it;
    `mmload run` then finds the spans.
    """
    run_server(server_settings(given(settings)))


spread(serve, settings=ServeFlags)
