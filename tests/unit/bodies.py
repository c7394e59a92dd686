"""Ready bodies of a scenario, and chat bodies taken apart again, for tests."""

import base64
import json
from typing import Any

from mmload.load.media.serve import MediaServer
from mmload.load.payloads import PayloadSet
from mmload.load.prepare import MediaPool, Schedule, describe, media, payloads, schedule
from mmload.scenario import Scenario


class Made:
    """Everything that is prepared for a scenario."""

    def __init__(
        self, server: MediaServer | None = None, as_: str = "video", **values: Any
    ) -> None:
        """`values` are the scenario's; its pictures are small and nothing is warmed up."""
        self.scenario = Scenario.model_validate(
            {"size": ["64x48"], "warmup": 0, "as": as_, **values}
        )
        self.schedule: Schedule = schedule(self.scenario)
        self.pool: MediaPool = media(self.scenario, self.schedule)
        self.payloads: PayloadSet = payloads(
            self.scenario, self.pool, "a-model", self.schedule, server
        )

    @property
    def about(self) -> dict[str, Any]:
        return describe(self.scenario, self.pool, self.schedule, self.payloads)

    def bytes(self, i: int) -> bytes:
        data = b"".join(self.payloads.pieces(i))
        assert len(data) == self.payloads.length(i)
        return data

    def body(self, i: int) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.bytes(i))
        return decoded

    def bodies(self) -> list[dict[str, Any]]:
        return [self.body(i) for i in range(len(self.schedule))]

    def names(self) -> list[str]:
        """The class of each measured request."""
        plan = self.payloads.plan
        return [self.pool.class_names[c] for c in plan.media_class[: len(self.schedule)]]


def parts(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What `image_url` or `video_url` parts hold, over all messages."""
    return [
        part[kind]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == kind
    ]


def files(body: dict[str, Any], kind: str = "image_url") -> list[bytes]:
    """The files behind the data URIs of a body; comma-joined ones one by one."""
    found = []
    for part in parts(body, kind):
        found += [base64.b64decode(f) for f in part["url"].partition(";base64,")[2].split(",")]
    return found


def prompt(body: dict[str, Any]) -> str:
    """The text of the last message."""
    content = body["messages"][-1]["content"]
    text: str = content if isinstance(content, str) else content[-1]["text"]
    return text
