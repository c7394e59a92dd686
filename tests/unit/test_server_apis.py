"""Completions, Responses, Messages and predict as files: bodies in, bytes and errors out.

No server. The streams are read back by the client's own readers; `tests/e2e/test_clients.py` lets
the official clients read them.
"""

import json
from typing import Any

import pytest

from mmload.records import Outcome, Record
from mmload.server.api import ServerApi
from mmload.server.api_chat import ChatCompletions
from mmload.server.api_completions import Completions
from mmload.server.api_messages import Messages
from mmload.server.api_predict import Predict
from mmload.server.api_responses import Responses
from mmload.server.engine import Token
from mmload.server.models import listing
from mmload.server.request import ApiError, MediaPart, ServeRequest, Turn, Usage
from mmload.server.settings import ServerSettings
from mmload.wire import APIS
from mmload.wire.base import Ask, MediaSlot
from tests.unit.wire_samples import play

SETTINGS = ServerSettings(model="m", max_tokens_limit=100)
SERVED: dict[str, ServerApi] = {
    "chat": ChatCompletions(),
    "completions": Completions(),
    "responses": Responses(),
    "messages": Messages(),
    "predict": Predict(),
}
SLOT = MediaSlot("image", "image/jpeg", "AAAA")
each = pytest.mark.parametrize("name", list(SERVED))


def parse(api: ServerApi, **fields: Any) -> ServeRequest:
    body = json.dumps({"model": "m", **fields}).encode()
    return api.parse(body, "application/json", "r-1", SETTINGS)


def refusal(api: ServerApi, **fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(api, **fields)
    return caught.value


def asked(name: str) -> ServeRequest:
    """What the server understands of the client's own body."""
    api = APIS[name]
    media = () if name == "completions" else (SLOT,)
    body = api.body(Ask("m", "what?", media, max_tokens=7))
    return SERVED[name].parse(body, api.content_type, "r-1", SETTINGS)


def test_every_api_of_the_client_is_served() -> None:
    assert list(SERVED) == list(APIS)
    for name, api in APIS.items():
        assert SERVED[name].path == ("/v1" if api.versioned else "") + api.path


@each
def test_the_clients_body_is_understood(name: str) -> None:
    request = asked(name)
    assert request.stream and request.request_id == "r-1"
    assert request.max_tokens == (100 if name == "predict" else 7)
    assert request.stream_usage == (name in ("chat", "completions"))
    given = MediaPart("image", data=b"AAAA") if name == "predict" else None
    image = given or MediaPart("image", "data:image/jpeg;base64,AAAA")
    parts = ("what?",) if name == "completions" else (image, "what?")
    assert request.turns == (Turn("user", parts),)
    assert request.templated == (name != "completions")


@each
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_servers_stream_is_understood(name: str, finish: str) -> None:
    writer = SERVED[name].writer(asked(name), SETTINGS, 1_700_000_000)
    usage = Usage(50, 40, 2)
    stream = [(10, writer.first(usage) + writer.token(Token(0, "Hi", 0)))]
    stream += [(20, writer.token(Token(1, " yöu", 0))), (30, writer.last(usage, finish))]
    record = play(name, stream, content_type=writer.stream_type)
    check(name, record, finish)
    assert [ns // 1_000_000 for ns in record.chunk_ns] == [10, 20]


@each
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_servers_whole_answer_is_understood(name: str, finish: str) -> None:
    writer = SERVED[name].writer(asked(name), SETTINGS, 1_700_000_000)
    body = writer.whole("Hi yöu", Usage(50, 40, 2), finish)
    check(name, play(name, [body], content_type=writer.whole_type), finish)


def check(name: str, record: Record, finish: str) -> None:
    assert record.outcome is Outcome.ok and record.answer == "Hi yöu"
    counted = (None, None) if name == "predict" else (50, 2)
    assert (record.prompt_tokens, record.output_tokens) == counted
    words: dict[str, dict[str, str | None]] = {
        "responses": {"stop": "completed", "length": "max_output_tokens"},
        "messages": {"stop": "end_turn", "length": "max_tokens"},
        "predict": {"stop": None, "length": None},
    }
    assert record.finish_reason == words.get(name, {finish: finish})[finish]
    assert record.media_tokens == (40 if name in ("chat", "completions") else None)


@each
def test_the_servers_error_is_understood(name: str) -> None:
    body = SERVED[name].error(ApiError(400, "no such thing"))
    record = play(name, [body], status=400, content_type="application/json")
    assert record.message == "HTTP 400: no such thing"


@pytest.mark.parametrize("name", [name for name in SERVED if name != "predict"])
def test_refusals_that_all_have(name: str) -> None:
    api = SERVED[name]
    assert refusal(api, model="other").status == 404
    assert refusal(api, model=None).message == "model: must be the name of the model"
    for body in (b"", b"[1]", b"[" * 100_000):
        with pytest.raises(ApiError, match="the body"):
            api.parse(body, "application/json", "r", SETTINGS)


def test_completions() -> None:
    api = Completions()
    request = parse(api, prompt=["hi"], max_tokens=3, ignore_eos=True)
    assert request.text == "hi" and request.ignore_end and not request.stream
    assert parse(api, prompt="hi").max_tokens == 16
    for prompt in (None, "", [], ["a", "b"], [1, 2], 5):
        assert refusal(api, prompt=prompt).message.startswith("prompt: must be")
    assert refusal(api, prompt="x", n=2).message == "n: only 1 is supported"
    assert refusal(api, prompt="x", max_tokens=0).message.startswith("max_tokens: must be")


def test_responses() -> None:
    api = Responses()
    request = parse(api, input="hi", instructions="be brief")
    assert request.turns == (Turn("system", ("be brief",)), Turn("user", ("hi",)))
    assert (request.max_tokens, request.stream) == (100, False)
    items = [
        {"role": "developer", "content": "x"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"type": "reasoning", "summary": []},
    ]
    turns = parse(api, input=items).turns
    assert turns == (Turn("developer", ("x",)), Turn("assistant", ("y",)), Turn("assistant", ()))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "input: must be a string or a list with at least one item"),
        ({"input": []}, "input: must be"),
        ({"input": "x", "instructions": 5}, "instructions: must be a string"),
        ({"input": "x", "previous_response_id": "r"}, "previous_response_id: is not supported"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens: must be an integer"),
        ({"input": [5]}, "input[0].type: 'None' is not supported"),
        ({"input": [{"type": "function_call"}]}, "input[0].type: 'function_call' is not supported"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role: must be one of"),
        ({"input": [{"role": "user", "content": [{"type": "text"}]}]}, "input[0].content[0].type:"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0].image_url: must be a string (a file_id is not supported)",
        ),
    ],
)
def test_responses_refusals(fields: dict[str, Any], words: str) -> None:
    error = refusal(Responses(), **fields)
    assert error.status == 400 and error.message.startswith(words)


USER = {"role": "user", "content": "hi"}


def test_messages() -> None:
    api = Messages()
    system = [{"type": "text", "text": "be brief"}]
    request = parse(api, messages=[USER], max_tokens=3, system=system)
    assert request.turns == (Turn("system", ("be brief",)), Turn("user", ("hi",)))
    image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}
    request = parse(api, messages=[{"role": "user", "content": [image]}], max_tokens=3)
    assert request.media == (MediaPart("image", "http://127.0.0.1/a.png"),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": [USER]}, "max_tokens: must be given"),
        ({"messages": [USER], "max_tokens": -1}, "max_tokens: must be an integer"),
        ({"messages": [], "max_tokens": 1}, "messages: must be a list"),
        ({"messages": [{"role": "system", "content": "x"}], "max_tokens": 1}, "messages[0].role:"),
        ({"messages": [USER], "max_tokens": 1, "system": 5}, "system: must be a string or a list"),
    ],
)
def test_messages_refusals(fields: dict[str, Any], words: str) -> None:
    error = refusal(Messages(), **fields)
    assert error.status == 400 and error.message.startswith(words)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "messages[0].content[0].source.type: 'None' is not supported: base64 and url are"),
        ({"type": "file"}, "messages[0].content[0].source.type: 'file' is not supported"),
        ({"type": "base64", "media_type": "image/png"}, "messages[0].content[0].source.data: must"),
        ({"type": "base64", "data": "x"}, "messages[0].content[0].source.media_type: must"),
        ({"type": "url"}, "messages[0].content[0].source.url: must be a string"),
    ],
)
def test_refused_image_sources(source: Any, words: str) -> None:
    messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    assert refusal(Messages(), messages=messages, max_tokens=1).message.startswith(words)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (500, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_anthropics_error_object(status: int, kind: str) -> None:
    body = json.loads(Messages().error(ApiError(status, "so it is")))
    assert body == {"type": "error", "error": {"type": kind, "message": "so it is"}}


def form(*fields: tuple[str, str]) -> bytes:
    parts = (f"--B\r\nContent-Disposition: form-data; {h}\r\n\r\n{c}\r\n" for h, c in fields)
    return "".join(parts).encode() + b"--B--\r\n"


IMAGE = ('name="image"; filename="a.jpg"', "xyz")
PROMPT = ('name="prompt"', "what?")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (form(PROMPT), "image: must be given as a file, once, not 0 times"),
        (form(IMAGE, IMAGE, PROMPT), "image: must be given as a file, once, not 2 times"),
        (form(('name="image"', "text"), PROMPT), "image: must be given as a file"),
        (form(IMAGE), "prompt: must be given once, not 0 times"),
        (b"{}", "the form has no end"),
    ],
)
def test_predict_refusals(body: bytes, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        Predict().parse(body, "multipart/form-data; boundary=B", "r", SETTINGS)
    assert caught.value.status == 422 and caught.value.message.startswith(words)
    assert json.loads(Predict().error(caught.value)) == {"detail": caught.value.message}


def test_the_model_list_has_both_shapes() -> None:
    body = json.loads(listing("m", 1_700_000_000))
    [model] = body.pop("data")
    assert body == {"object": "list", "first_id": "m", "last_id": "m", "has_more": False}
    assert model == {
        "id": "m",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "mmload",
        "type": "model",
        "display_name": "m",
        "created_at": "2023-11-14T22:13:20Z",
    }
