"""From a scenario to everything that is ready before the clock starts: times, media, bodies.

scenario ──> schedule (times) ──┬──────────────> plan ──> payloads (bodies)
    └──────> media (assemble) ──┘    which request shows and asks what
"""

from mmload.load.prepare.assemble import media
from mmload.load.prepare.bodies import payloads
from mmload.load.prepare.describe import describe
from mmload.load.prepare.links import links
from mmload.load.prepare.pool import MediaPool
from mmload.load.prepare.times import Schedule, schedule

__all__ = ["MediaPool", "Schedule", "describe", "links", "media", "payloads", "schedule"]
