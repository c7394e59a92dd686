"""`mmload probe colours URL`: does a server still see?"""

import asyncio
import json
import secrets
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mmload.clock import NS_PER_S
from mmload.errors import MmloadError, ThresholdFailed, UsageError
from mmload.flags import flags_of, given, spread
from mmload.load.control import discover
from mmload.load.limits import Limits
from mmload.load.reach import Reach, reach_from
from mmload.load.redact import Redactor
from mmload.load.target import parse_target
from mmload.probe import Reply, Server, Verdict, ask_all, questions, verdict
from mmload.report.console import one_line
from mmload.wire import APIS

ConnectionFlags = flags_of(Reach, "How to reach the server")


def probe(
    what: Annotated[Literal["colours"], Parameter(help="The set of pictures.")],
    url: Annotated[str, Parameter(help="Base URL of the server.")],
    /,
    *,
    api: Annotated[str, Parameter(help=f"The server's API: {', '.join(APIS)}.")] = "chat",
    model: Annotated[
        str | None, Parameter(help="Model name (the one that /v1/models lists).")
    ] = None,
    max_tokens: Annotated[
        int, Parameter(help="Output tokens asked for; reasoning models need more.")
    ] = 64,
    timeout: Annotated[float, Parameter(help="Seconds that a request may take.")] = 120.0,
    as_json: Annotated[
        bool, Parameter(name="--json", help="Print the answers as JSON.", negative=())
    ] = False,
    connection: Any = None,
) -> int:
    """Show a server a few simple pictures and say whether it still sees them.

    Four solid colours, a word in black on white, left red and right blue, one request at a time.
    Exit code 0 when every answer is right, else 4.
    """
    server = _server(url, api, model, max_tokens, timeout, reach_from(given(connection)))
    replies = ask_all(server, questions())
    found = verdict(replies)
    print(_as_json(what, server, found, replies) if as_json else _as_text(server, found, replies))
    return 0 if found.passed else ThresholdFailed.exit_code


def _server(
    url: str, api_name: str, model: str | None, max_tokens: int, timeout_s: float, reach: Reach
) -> Server:
    if api_name not in APIS:
        raise UsageError(f"--api {api_name}: mmload speaks {', '.join(APIS)}", "choose one")
    if max_tokens < 1 or not 0 < timeout_s <= 86_400:
        raise UsageError("--max-tokens and --timeout: must be above 0", "leave them out")
    api = APIS[api_name]
    api.check(["image"])
    target = parse_target(url, reach, api.path, versioned=api.versioned)
    address = target.resolve()
    try:
        found = asyncio.run(discover(target, address, model if api.names_model else model or ""))
    except MmloadError as error:  # it may hold a server's words
        error.message = Redactor(target.secrets).text(error.message)
        raise
    limits = Limits(
        timeout_ns=round(timeout_s * NS_PER_S),
        concurrency=1,
        connect_timeout_ns=reach.connect_timeout_ns,
        first_token_timeout_ns=reach.first_token_timeout_ns,
    )
    prefix = f"probe-{secrets.token_hex(4)}"
    return Server(target, address, api, found.model, max_tokens, limits, prefix)


def _as_text(server: Server, found: Verdict, replies: list[Reply]) -> str:
    about = f"{server.target.display}, {server.model}" if server.model else server.target.display
    lines = [f"{found.word}  {found.sentence}", f"  {about}", ""]
    for reply in replies:
        mark = "failed" if reply.failure else "right" if reply.right else "wrong"
        said = one_line(reply.failure or reply.answer)
        lines.append(f"  {mark:6}  {reply.question.title}: {reply.question.expected} expected")
        lines.append(f"          {reply.question.prompt}")
        lines.append(f"          -> {said[:160]}{'...' if len(said) > 160 else ''}")
    return "\n".join(lines)


def _as_json(what: str, server: Server, found: Verdict, replies: list[Reply]) -> str:
    return json.dumps(
        {
            "probe": what,
            "target": server.target.display,
            "model": server.model,
            "verdict": found.word,
            "sentence": found.sentence,
            "passed": found.passed,
            "answers": [
                {
                    "title": reply.question.title,
                    "prompt": reply.question.prompt,
                    "expected": reply.question.expected,
                    "answer": reply.answer,
                    "failure": reply.failure or None,
                    "right": reply.right,
                    "sha256": reply.question.picture.sha256,
                }
                for reply in replies
            ],
        },
        indent=1,
    )


spread(probe, connection=ConnectionFlags)
