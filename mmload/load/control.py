"""Single requests beside the load: is the server there, which models does it list, is it traced."""

import asyncio
from dataclasses import dataclass, field

import msgspec

from mmload.clock import MonotonicClock
from mmload.errors import UsageError
from mmload.load.failures import CERTIFICATE
from mmload.load.http import HttpTransport
from mmload.load.target import Target
from mmload.load.transport import Address, Headers
from mmload.records import WARM_UP, Outcome
from mmload.wire.errors import error_text, shorten

BODY_LIMIT_BYTES = 16 * 1024 * 1024
_OWN = f"X-Request-Id: {WARM_UP}question\r\n\r\n".encode()  # its spans are no request's of the run


@dataclass
class Answer:
    """A whole response, or why there is none."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    failure: str = ""


@dataclass
class _Collect:
    done: asyncio.Future[None]
    answer: Answer = field(default_factory=Answer)

    def on_connected(self, now_ns: int, reused: bool) -> None: ...

    def on_written(self, now_ns: int) -> None: ...

    def on_head(self, status: int, headers: Headers, now_ns: int) -> None:
        self.answer.status, self.answer.headers = status, dict(headers)

    def on_body(self, data: bytes, now_ns: int) -> None:
        if len(self.answer.body) < BODY_LIMIT_BYTES:
            self.answer.body += data

    def on_end(self, now_ns: int) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def on_failure(self, outcome: Outcome, message: str, now_ns: int) -> None:
        self.answer.failure = message
        self.on_end(now_ns)


async def get(target: Target, address: Address, path: str, timeout_s: float = 10.0) -> Answer:
    """One GET. Never raises for what the server does: see `Answer.failure`."""
    transport = HttpTransport(address, MonotonicClock(), keepalive=False)
    sink = _Collect(asyncio.get_running_loop().create_future())
    exchange = transport.send(target.head("GET", path, None, 0) + _OWN, [], sink)
    try:
        await asyncio.wait_for(sink.done, timeout_s)
    except TimeoutError:
        sink.answer.failure = f"no answer within {timeout_s:g} s"
    finally:
        exchange.cancel()
        await transport.close()
    return sink.answer


@dataclass(frozen=True)
class Discovery:
    """What the server said of itself before the run."""

    model: str
    trace: str | None  # the hook's header: "<boot id>;<span folder>", or None


async def discover(target: Target, address: Address, model: str | None) -> Discovery:
    """Asks `/v1/models`: proves that the server is there and names the model if it lists one.

    Raises UsageError when nothing answers, or when the model has to be named and is not.
    """
    path = f"{target.base_path}/models"
    answer = await get(target, address, path)
    if answer.failure:
        way = f" through the proxy {target.proxy.display}" if target.proxy is not None else ""
        untrusted = CERTIFICATE in answer.failure
        raise UsageError(
            f"{target.display}: no server answers{way}: {answer.failure}",
            "give its authority by --cacert FILE, or do without the check by --insecure"
            if untrusted
            else "start the server, or correct the URL",
        )
    trace = answer.headers.get(b"x-mmload-trace")
    said = trace.decode("latin-1") if trace else None
    if model is not None:
        return Discovery(model, said)
    if answer.status in (401, 403):
        raise UsageError(
            f"{target.display}/models: HTTP {answer.status}: {_error(answer)}",
            "give the key by --api-key or MMLOAD_API_KEY",
        )
    names = _model_names(answer)
    if len(names) != 1:
        listed = ", ".join(names) if names else "none"
        said_why = f": {_error(answer)}" if answer.status >= 400 else ""
        raise UsageError(
            f"{target.display}/models: HTTP {answer.status}{said_why}; models listed: {listed}",
            "name the model by --model",
        )
    return Discovery(names[0], said)


def _model_names(answer: Answer) -> list[str]:
    try:
        listed = msgspec.json.decode(answer.body)
        return [str(entry["id"]) for entry in listed["data"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []


def _error(answer: Answer) -> str:
    try:
        return shorten(error_text(msgspec.json.decode(answer.body)) or "")
    except msgspec.DecodeError:
        return shorten(answer.body.decode("utf-8", "replace"))
