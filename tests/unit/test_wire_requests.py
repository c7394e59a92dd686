"""What each API sends: bodies by the APIs' own documentation, places for media, refusals."""

import base64
import email
import hashlib
import json
from email.policy import HTTP
from typing import Any

import pytest

from mmload.errors import UsageError
from mmload.load.media import Media, MediaKind, Site
from mmload.load.payloads import file_strand, make_base
from mmload.wire import APIS
from mmload.wire.base import Ask, MediaSlot, Turn

SLOTS = (
    MediaSlot("image", "image/jpeg", "@@0@@"),
    MediaSlot("image", "image/png", "@@1@@", detail="low"),
)
LINK = MediaSlot("image", "image/jpeg", "@@0@@", link="http://127.0.0.1:9/a.jpg")


def body(api: str, **fields: Any) -> dict[str, Any]:
    ask = Ask(**{"model": "m", "prompt": "what?", "max_tokens": 5, **fields})
    parsed: dict[str, Any] = json.loads(APIS[api].body(ask))
    return parsed


def test_every_api_is_registered_by_its_name() -> None:
    assert list(APIS) == ["chat", "completions", "responses", "messages", "predict"]
    assert all(api.name == name for name, api in APIS.items())
    paths = {name: api.path for name, api in APIS.items()}
    assert paths == {
        "chat": "/chat/completions",
        "completions": "/completions",
        "responses": "/responses",
        "messages": "/messages",
        "predict": "/predict",
    }
    assert [name for name, api in APIS.items() if not api.versioned] == ["predict"]
    assert [name for name, api in APIS.items() if api.raw] == ["predict"]


def test_chat() -> None:
    assert body("chat", media=SLOTS) == {
        "model": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,@@0@@"}},
                    {
                        "type": "image_url",
                        "image_url": {"url": "data:image/png;base64,@@1@@", "detail": "low"},
                    },
                    {"type": "text", "text": "what?"},
                ],
            }
        ],
        "max_tokens": 5,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_completions() -> None:
    assert body("completions") == {
        "model": "m",
        "prompt": "what?",
        "max_tokens": 5,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_responses() -> None:
    images = [
        {"type": "input_image", "image_url": "data:image/jpeg;base64,@@0@@", "detail": "auto"},
        {"type": "input_image", "image_url": "data:image/png;base64,@@1@@", "detail": "low"},
    ]
    content = [*images, {"type": "input_text", "text": "what?"}]
    assert body("responses", media=SLOTS) == {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": content}],
        "max_output_tokens": 5,
        "temperature": 0.0,
        "stream": True,
    }


def test_messages() -> None:
    def source(mime: str, data: str) -> dict[str, Any]:
        return {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}

    content = [
        source("image/jpeg", "@@0@@"),
        source("image/png", "@@1@@"),
        {"type": "text", "text": "what?"},
    ]
    assert body("messages", media=SLOTS) == {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": content}],
        "temperature": 0.0,
        "stream": True,
    }


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_extra_fields_win(api: str) -> None:
    sent = body(api, extra={"temperature": 0.7, "mm_processor_kwargs": {"x": 1}})
    assert sent["temperature"] == 0.7 and sent["mm_processor_kwargs"] == {"x": 1}


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_who_asks_for_no_stream_has_no_options_of_one(api: str) -> None:
    assert "stream_options" not in body(api, extra={"stream": False})
    assert body(api, extra={"stream_options": None})["stream_options"] is None


def test_links_in_the_place_of_bytes() -> None:
    def content(name: str, key: str) -> Any:
        return body(name, media=(LINK,))[key][0]["content"][0]

    assert content("chat", "messages")["image_url"] == {"url": LINK.link}
    assert content("responses", "input")["image_url"] == LINK.link
    assert content("messages", "messages")["source"] == {"type": "url", "url": LINK.link}


def test_earlier_turns() -> None:
    history = (Turn("first?", "One.", media=SLOTS[:1]),)
    for api, key in (("chat", "messages"), ("responses", "input"), ("messages", "messages")):
        turns = body(api, history=history, media=SLOTS[1:])[key]
        assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
        assert turns[1]["content"] == "One."
        assert "@@0@@" in json.dumps(turns[0]) and "@@1@@" in json.dumps(turns[2])
    assert body("completions", history=history)["prompt"] == "first?\nOne.\nwhat?"


def medium(data: bytes, sites: tuple[Site, ...] = ()) -> Media:
    digest = hashlib.sha256(data).hexdigest()
    return Media("image", "image/jpeg", data, 4, 4, 1, "a.jpg", digest, sites)


def test_predict_is_a_form_with_the_files_own_bytes() -> None:
    api = APIS["predict"]
    data = bytes(range(256)) + b"\r\n--\r\n\r\n"
    ask = Ask("m", "Grüße?", SLOTS[:1], extra={"temperature": 0.5, "mode": "fast"})
    base = make_base(api.body(ask), [("@@0@@", file_strand(medium(data), raw=api.raw))])
    sent = base.bytes(0)
    assert base.length == len(sent)
    message = email.message_from_bytes(
        b"Content-Type: " + api.content_type.encode() + b"\r\n\r\n" + sent, policy=HTTP
    )
    found = []
    for part in message.iter_parts():
        disposition = part["Content-Disposition"]
        assert disposition.content_disposition == "form-data"
        found.append((disposition.params["name"], disposition.params.get("filename")))
    names = [("image", "image.jpeg"), ("prompt", None), ("temperature", None), ("mode", None)]
    assert found == names
    # email's parser decodes bytes its own way: the file itself is checked in the raw body
    head = b'name="image"; filename="image.jpeg"\r\nContent-Type: image/jpeg\r\n\r\n'
    _, _, rest = sent.partition(head)
    assert rest.startswith(data + b"\r\n--" + api.content_type.partition("boundary=")[2].encode())
    assert b'name="prompt"\r\n\r\nGr\xc3\xbc\xc3\x9fe?\r\n' in sent
    assert b'name="temperature"\r\n\r\n0.5\r\n' in sent and b"\r\n\r\nfast\r\n" in sent


def test_a_variant_of_a_form_differs_in_its_site_alone() -> None:
    api = APIS["predict"]
    data = b"0123456789ABCDEF"
    media = file_strand(medium(data, (Site(3, (b"345", b"xyz")),)), raw=True)
    base = make_base(api.body(Ask("m", "p", SLOTS[:1])), [("@@0@@", media)])
    assert base.variants == 2
    assert base.bytes(1) == base.bytes(0).replace(data, b"012xyz6789ABCDEF")


def test_base64_for_all_the_others() -> None:
    api = APIS["messages"]
    body = api.body(Ask("m", "p", SLOTS[:1]))
    sent = json.loads(
        make_base(body, [("@@0@@", file_strand(medium(b"abc"), raw=api.raw))]).bytes(0)
    )
    data = sent["messages"][0]["content"][0]["source"]["data"]
    assert base64.b64decode(data) == b"abc"


@pytest.mark.parametrize(
    ("api", "kinds", "words"),
    [
        ("completions", ["image"], "--api completions: takes text alone, not images"),
        ("responses", ["video"], "--api responses: takes text and images, not videos"),
        ("messages", ["image", "video"], "--api messages: takes text and images, not videos"),
        ("predict", [], "--api predict: takes one image a request, not text alone"),
        ("predict", ["image"] * 3, "--api predict: takes one image a request, not 3"),
        ("predict", ["video"], "--api predict: takes text and images, not videos"),
    ],
)
def test_media_that_an_api_has_no_place_for(api: str, kinds: list[MediaKind], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        APIS[api].check(kinds)
    assert caught.value.message == words and caught.value.hint


def test_a_form_has_no_place_for_earlier_turns() -> None:
    with pytest.raises(UsageError, match="takes one prompt, not a conversation"):
        APIS["predict"].body(Ask("m", "p", SLOTS[:1], history=(Turn("a", "b"),)))


def test_media_that_it_has_a_place_for() -> None:
    APIS["chat"].check(["image", "video", "image"])
    APIS["completions"].check([])
    APIS["responses"].check(["image", "image"])
    APIS["predict"].check(["image"])


def test_headers_of_their_own() -> None:
    version = {"anthropic-version": "2023-06-01"}
    messages = APIS["messages"].own_headers
    assert APIS["chat"].own_headers("Bearer secret") == {}
    assert messages(None) == version
    assert messages("Bearer secret") == {**version, "x-api-key": "secret"}
    assert messages("Basic dXNlcjpwYXNz") == version
