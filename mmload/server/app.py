"""The embedded server's HTTP: routes, errors, streaming, the access log. aiohttp.

In: a pipeline. Out: an aiohttp application. Each API's bodies are its own file's business (`APIS`);
what all share is here: the request id, the `http_receive` and `stream_out` stages, error mapping,
and that a client which leaves cancels its request.
"""

import contextlib
import traceback
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from mmload import clock as wall
from mmload.clock import Clock
from mmload.hook import spans
from mmload.hook import web as hook_web
from mmload.server.access_log import Access
from mmload.server.api import AnswerWriter, ServerApi
from mmload.server.api_chat import ChatCompletions
from mmload.server.api_completions import Completions
from mmload.server.api_messages import Messages, anthropic_error
from mmload.server.api_predict import Predict
from mmload.server.api_responses import Responses
from mmload.server.fields import check_model, openai_error
from mmload.server.metrics import Metrics
from mmload.server.models import listing, model
from mmload.server.pipeline import MIB, Pipeline, Prepared
from mmload.server.request import ApiError, ServeRequest
from mmload.server.settings import ServerSettings

APIS: Final[tuple[ServerApi, ...]] = (
    ChatCompletions(),
    Completions(),
    Responses(),
    Messages(),
    Predict(),
)


def make_app(
    settings: ServerSettings, pipeline: Pipeline, metrics: Metrics, clock: Clock
) -> web.Application:
    """The application; the caller starts and ends the pipeline."""
    app = web.Application(client_max_size=settings.max_body_mib * MIB, middlewares=[_worded_errors])
    hook_web.setup(app)
    started_s = wall.wall_ns() // 10**9

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def models(_: web.Request) -> web.Response:
        return _json(200, listing(settings.model, started_s))

    async def one_model(http: web.Request) -> web.Response:
        try:
            check_model(http.match_info["name"], settings)
        except ApiError as error:
            return _json(error.status, _refusal(http, error))
        return _json(200, msgspec.json.encode(model(settings.model, started_s)))

    async def exposition(_: web.Request) -> web.Response:
        return web.Response(text=metrics.text(), content_type="text/plain", charset="utf-8")

    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    app.router.add_get("/v1/models/{name:.+}", one_model)
    app.router.add_get("/metrics", exposition)
    for api in APIS:
        app.router.add_post(api.path, _Endpoint(api, settings, pipeline, metrics, clock).handle)
    return app


class _Endpoint:
    """One API at its path."""

    def __init__(
        self,
        api: ServerApi,
        settings: ServerSettings,
        pipeline: Pipeline,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._api = api
        self._settings = settings
        self._pipeline = pipeline
        self._metrics = metrics
        self._clock = clock

    async def handle(self, http: web.Request) -> web.StreamResponse:
        access = Access(spans.request_id.get() or "", http.path, self._clock.now_ns())
        try:
            response = await self._answer(http, access)
            access.status = response.status
            return response
        except ApiError as error:
            access.status, access.error = error.status, error.message
            return _json(error.status, self._api.error(error))
        except ConnectionError:
            raise  # the client left: 499
        except Exception as error:
            access.status, access.error = 500, f"{type(error).__name__}: {error}"
            if access.first_token_ns is not None and access.streaming:
                raise  # too late for another answer: the connection is closed in mid-stream
            traceback.print_exc()
            broken = ApiError(500, "internal error: see the server's log", kind="server_error")
            return _json(500, self._api.error(broken))
        finally:
            end_ns = self._clock.now_ns()
            self._metrics.request_ended(access.status, end_ns - access.headers_ns)
            if not self._settings.no_request_log:
                access.write(end_ns)

    async def _answer(self, http: web.Request, access: Access) -> web.StreamResponse:
        request = await self._receive(http, access)
        prepared = await self._pipeline.prepare(request)
        access.frames = prepared.frames
        access.prompt_tokens = prepared.rendered.prompt_tokens
        writer = self._api.writer(request, self._settings, wall.wall_ns() // 10**9)
        if request.stream:
            access.streaming = True
            response = await self._stream(http, prepared, writer, access)
        else:
            response = await self._whole(prepared, writer, access)
        assert access.output_tokens is not None
        self._metrics.answered(prepared.rendered.prompt_tokens, access.output_tokens)
        return response

    async def _receive(self, http: web.Request, access: Access) -> ServeRequest:
        with self._metrics.stage("http_receive") as seen:
            try:
                body = await http.read()
            except web.HTTPRequestEntityTooLarge as error:
                raise ApiError(
                    413, f"the body is larger than {self._settings.max_body_mib} MiB"
                ) from error
            access.body_bytes = len(body)
            seen.add(bytes=len(body))
            content_type = http.headers.get("Content-Type", "")
            return self._api.parse(body, content_type, access.request_id, self._settings)

    async def _stream(
        self, http: web.Request, prepared: Prepared, writer: AnswerWriter, access: Access
    ) -> web.StreamResponse:
        headers = {"Content-Type": writer.stream_type, "Cache-Control": "no-cache"}
        response = web.StreamResponse(headers=headers)
        async with contextlib.aclosing(self._pipeline.generate(prepared)) as tokens:
            async for token in tokens:
                data = b""
                if access.first_token_ns is None:
                    await response.prepare(http)
                    data = writer.first(prepared.usage())
                    self._first_token(access)
                if token.text:  # a token may be a part of a character
                    data += writer.token(token)
                if data:
                    await response.write(data)
        access.output_tokens = token.number + 1
        usage = prepared.usage(access.output_tokens)
        await response.write(writer.last(usage, prepared.finish_reason(token)))
        assert access.first_token_ns is not None
        spans.record("stream_out", access.first_token_ns, self._clock.now_ns())
        return response

    async def _whole(
        self, prepared: Prepared, writer: AnswerWriter, access: Access
    ) -> web.StreamResponse:
        words: list[str] = []
        async with contextlib.aclosing(self._pipeline.generate(prepared)) as tokens:
            async for token in tokens:
                if access.first_token_ns is None:
                    self._first_token(access)
                words.append(token.text)
        access.output_tokens = token.number + 1
        usage = prepared.usage(access.output_tokens)
        body = writer.whole("".join(words), usage, prepared.finish_reason(token))
        return web.Response(body=body, content_type=writer.whole_type)

    def _first_token(self, access: Access) -> None:
        access.first_token_ns = self._clock.now_ns()
        self._metrics.first_token(access.first_token_ns - access.headers_ns)


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


def _refusal(request: web.Request, error: ApiError) -> bytes:
    """An error that no API has worded, in the shape that the client at the other end parses."""
    return anthropic_error(error) if "anthropic-version" in request.headers else openai_error(error)


@web.middleware
async def _worded_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """aiohttp's own refusals (no such path, wrong method) in the shape that clients expect."""
    try:
        return await handler(request)
    except web.HTTPError as error:
        words = f"{request.method} {request.path[:100]}: {error.reason}"
        response = _json(error.status, _refusal(request, ApiError(error.status, words)))
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
