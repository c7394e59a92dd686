"""The APIs that mmload speaks: one file each, one line here. Pure: bytes in, records out."""

from typing import Final

from mmload.wire.base import Api
from mmload.wire.chat import ChatApi

APIS: Final[dict[str, Api]] = {
    api.name: api
    for api in (
        ChatApi(),
    )
}  # fmt: skip
