"""Servers that mmload starts: planned, found ready, watched, ended with all their children.

flags.py    from what was typed to a plan
plan.py     what to start, and how; plain data
where.py    where a command will listen
process.py  the server while it runs
keeper.py   the process between the two that ends everything
hidden.py   what must not be written down
"""

from mmload.serving.plan import CommandPlan, EmbeddedPlan, ServerPlan, server_of
from mmload.serving.process import About, AnnouncedServer, Server

__all__ = [
    "About",
    "AnnouncedServer",
    "CommandPlan",
    "EmbeddedPlan",
    "Server",
    "ServerPlan",
    "server_of",
]
