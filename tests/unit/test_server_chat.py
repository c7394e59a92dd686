"""The chat API's file: bodies in, errors and SSE bytes out. No server."""

import json
from typing import Any

import pytest

from mmload.server.api_chat import ChatCompletions
from mmload.server.engine import Token
from mmload.server.request import ApiError, MediaPart, Turn, Usage
from mmload.server.settings import ServerSettings

API = ChatCompletions()
SETTINGS = ServerSettings(model="m", max_tokens_limit=100)
USER = {"role": "user", "content": "hi"}


def parse(**fields: Any) -> Any:
    body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    return API.parse(body, "application/json", "r-1", SETTINGS)


def test_parts_keep_their_order() -> None:
    request = parse(
        messages=[
            {"role": "system", "content": "be brief"},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:a", "detail": "auto"}},
                    {"type": "text", "text": "what?"},
                    {"type": "video_url", "video_url": {"url": "data:b"}},
                    {"type": "image_url", "image_url": "data:c"},
                ],
            },
            {"role": "assistant", "content": None},
        ]
    )
    a, b, c = (
        MediaPart("image", "data:a"),
        MediaPart("video", "data:b"),
        MediaPart("image", "data:c"),
    )
    assert request.turns == (
        Turn("system", ("be brief",)),
        Turn("user", (a, "what?", b, c)),
        Turn("assistant", ()),
    )
    assert request.media == (a, b, c)


def test_options() -> None:
    plain = parse(temperature=0.5, unknown={"x": 1})
    assert (plain.max_tokens, plain.stream, plain.stream_usage, plain.ignore_end) == (
        100,
        False,
        False,
        False,
    )
    request = parse(
        max_tokens=7, stream=True, stream_options={"include_usage": True}, ignore_eos=True
    )
    assert (request.max_tokens, request.stream, request.stream_usage) == (7, True, True)
    assert request.ignore_end
    assert parse(max_tokens=7, max_completion_tokens=9).max_tokens == 9


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "other"}, 404, "the model 'other' does not exist: this server has 'm'"),
        ({"model": None}, 400, "model: must be"),
        ({"messages": []}, 400, "messages: must be a list with at least one message"),
        ({"messages": "hi"}, 400, "messages: must be a list"),
        ({"messages": ["hi"]}, 400, "messages[0]: must be an object"),
        ({"messages": [{"role": "robot", "content": "x"}]}, 400, "messages[0].role: must be one"),
        ({"messages": [USER, {"role": "user", "content": 3}]}, 400, "messages[1].content: must be"),
        ({"max_tokens": 0}, 400, "max_tokens: must be an integer of at least 1, not 0"),
        ({"max_tokens": True}, 400, "max_tokens: must be an integer"),
        ({"max_tokens": "9"}, 400, "max_tokens: must be an integer"),
        ({"n": 2}, 400, "n: only 1"),
    ],
)
def test_refusals_name_the_field(fields: dict[str, Any], status: int, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(**fields)
    assert caught.value.status == status
    assert caught.value.message.startswith(words)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("x", "messages[0].content[0].type: 'None' is not supported"),
        ({"type": "input_audio"}, "messages[0].content[0].type: 'input_audio' is not supported"),
        ({"type": "text"}, "messages[0].content[0].text: must be a string"),
        ({"type": "image_url"}, "messages[0].content[0].image_url.url: must be a string"),
        ({"type": "video_url", "video_url": {"url": ""}}, "messages[0].content[0].video_url.url"),
    ],
)
def test_refused_parts(part: Any, words: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(messages=[{"role": "user", "content": [part]}])
    assert caught.value.status == 400 and caught.value.message.startswith(words)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b"{} trailing"])
def test_bodies_that_are_no_json_object(body: bytes) -> None:
    with pytest.raises(ApiError, match="the body"):
        API.parse(body, "application/json", "r-1", SETTINGS)


def test_the_error_object_is_openais() -> None:
    with pytest.raises(ApiError) as caught:
        parse(model="other")
    assert json.loads(API.error(caught.value)) == {
        "error": {
            "message": "the model 'other' does not exist: this server has 'm'",
            "type": "not_found_error",
            "param": None,
            "code": "model_not_found",
        }
    }


def events(data: bytes) -> list[Any]:
    lines = data.decode().split("\n\n")
    assert lines.pop() == "" and all(line.startswith("data: ") for line in lines)
    return [line[6:] if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


@pytest.mark.parametrize("with_usage", [False, True])
def test_a_stream(with_usage: bool) -> None:
    request = parse(stream=True, stream_options={"include_usage": with_usage})
    writer = API.writer(request, SETTINGS, 1_700_000_000)
    data = (
        writer.first(Usage(50, 40, 2))
        + writer.token(Token(0, "Hi", 0))
        + writer.token(Token(1, " you", 0))
    )
    *chunks, done = events(data + writer.last(Usage(50, 40, 2), "stop"))
    assert done == "[DONE]"
    usage = chunks.pop() if with_usage else None
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {"content": " you"},
        {},
    ]
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None, None, None, "stop"]
    assert all("usage" not in chunk for chunk in chunks)
    about = {
        "id": "chatcmpl-r-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "m",
    }
    assert all(chunk.items() >= about.items() for chunk in chunks)
    if with_usage:
        assert usage == {
            **about,
            "choices": [],
            "usage": {
                "prompt_tokens": 50,
                "completion_tokens": 2,
                "total_tokens": 52,
                "prompt_tokens_details": {"cached_tokens": 0, "multimodal_tokens": 40},
            },
        }


def test_a_whole_answer() -> None:
    answer = json.loads(API.writer(parse(), SETTINGS, 5).whole("Hi", Usage(3, 0, 1), "length"))
    assert answer["object"] == "chat.completion"
    assert answer["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi"},
            "logprobs": None,
            "finish_reason": "length",
        }
    ]
    assert answer["usage"]["total_tokens"] == 4
