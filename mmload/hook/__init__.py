"""The server side: stamps what happens to a request. Stdlib only; inert unless switched on.

from mmload import hook

hook.install("server", {"workers": 2})    # does nothing unless MMLOAD_HOOK_DIR names a folder
with hook.span("processor", frames=15):   # a stage of `hook.stages`, or your own
    ...
"""

from mmload.hook.spans import describe, enabled, install, note, record, request_id, span

__all__ = ["describe", "enabled", "install", "note", "record", "request_id", "span"]
