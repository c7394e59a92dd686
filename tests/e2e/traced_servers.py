"""Servers that know nothing of mmload: FastAPI on uvicorn, and aiohttp.web.

python traced_servers.py fastapi|sync|blocking|aiohttp PORT
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

POOL = ThreadPoolExecutor(2)


def event(content: str) -> str:
    chunk = {"choices": [{"index": 0, "delta": {"content": content}}]}
    return f"data: {json.dumps(chunk)}\n\n"


async def words() -> AsyncIterator[str]:
    """A little work in a pool, a little on the loop, then three tokens."""
    await asyncio.get_running_loop().run_in_executor(POOL, time.sleep, 0.01)
    async for text in tokens():
        yield text


async def tokens() -> AsyncIterator[str]:
    for word in ("one", " two", " three"):
        await asyncio.sleep(0.002)
        yield event(word)
    yield "data: [DONE]\n\n"


def encode() -> None:
    time.sleep(0.06)


def blocking(port: int) -> None:
    fastapi(port, blocks=True)


def sync(port: int) -> None:
    """Plain `def` endpoints run in anyio's threads."""
    fastapi(port, plain=True)


def fastapi(port: int, blocks: bool = False, plain: bool = False) -> None:
    import uvicorn
    from fastapi import Depends, FastAPI
    from fastapi.responses import StreamingResponse

    app = FastAPI()

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        return {"data": [{"id": "tiny"}]}

    def depended_on() -> None:
        time.sleep(0.03)

    def plain_chat(
        body: dict[str, Any],
        _user: None = Depends(depended_on),  # noqa: B008
    ) -> StreamingResponse:
        assert body["messages"]
        time.sleep(0.01)
        return StreamingResponse(tokens(), media_type="text/event-stream")

    async def chat(body: dict[str, Any]) -> StreamingResponse:
        assert body["messages"]
        if blocks:
            encode()
        return StreamingResponse(words(), media_type="text/event-stream")

    app.post("/v1/chat/completions")(plain_chat if plain else chat)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


def aiohttp(port: int) -> None:
    from aiohttp import web

    async def models(_request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny"}]})

    async def chat(request: web.Request) -> web.StreamResponse:
        assert (await request.json())["messages"]
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        async for text in words():
            await response.write(text.encode())
        return response

    app = web.Application(client_max_size=2**26)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/chat/completions", chat)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


if __name__ == "__main__":
    kinds = {"fastapi": fastapi, "sync": sync, "aiohttp": aiohttp, "blocking": blocking}
    kinds[sys.argv[1]](int(sys.argv[2]))
