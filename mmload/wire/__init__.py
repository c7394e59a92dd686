"""The APIs that mmload speaks: one file each, one line here. Pure: bytes in, records out."""

from typing import Final

from mmload.wire.base import Api
from mmload.wire.chat import ChatApi
from mmload.wire.completions import CompletionsApi
from mmload.wire.messages import MessagesApi
from mmload.wire.predict import PredictApi
from mmload.wire.responses import ResponsesApi

APIS: Final[dict[str, Api]] = {
    api.name: api
    for api in (
        ChatApi(),
        CompletionsApi(),
        ResponsesApi(),
        MessagesApi(),
        PredictApi(),
    )
}  # fmt: skip
