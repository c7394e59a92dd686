"""The yardstick: a constant rate with uvloop, aiohttp and ready bytes, and nothing else.

    python -m bench.trivial_loop URL BODIES RATE REQUESTS OUT

BODIES is a file with a request body a line, sent in turn. OUT gets a JSON line a request: `id`,
`intended_ns`, `sent_ns`, `first_ns` (all on CLOCK_MONOTONIC). It shows what a careful script
reaches, so it must stay trivial: no checks, no retries, one process, one coroutine a request.
"""

import asyncio
import json
import sys
import time

import aiohttp
import uvloop


async def load(url: str, bodies: list[bytes], rate: float, requests: int) -> list[dict[str, int]]:
    rows = []

    async def one(i: int, intended_ns: int, session: aiohttp.ClientSession) -> None:
        headers = {"Content-Type": "application/json", "X-Request-Id": str(i)}
        sent_ns, first_ns = time.monotonic_ns(), 0
        async with session.post(url, data=bodies[i % len(bodies)], headers=headers) as response:
            async for _ in response.content.iter_any():
                first_ns = first_ns or time.monotonic_ns()
        rows.append({"id": i, "intended_ns": intended_ns, "sent_ns": sent_ns, "first_ns": first_ns})

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        start_ns = time.monotonic_ns() + 100_000_000
        for i in range(requests):
            intended_ns = start_ns + round(i * 1e9 / rate)
            await asyncio.sleep(max(0, intended_ns - time.monotonic_ns()) / 1e9)
            tasks.create_task(one(i, intended_ns, session))
    return rows


if __name__ == "__main__":
    url, body_file, rate, requests, out_file = sys.argv[1:]
    with open(body_file, "rb") as file:
        lines = file.read().splitlines()
    rows = uvloop.run(load(url, lines, float(rate), int(requests)))
    with open(out_file, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
