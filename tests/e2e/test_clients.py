"""The official clients of OpenAI and Anthropic against the embedded server.

They were written by others, so they show that the server follows the protocols and not merely our
own client's idea of them: chat, Responses, Messages and completions, streaming and not, images by
base64 and by URL, model lists, and errors as the exceptions that the clients have for them.
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from mmload.processors.arithmetic import count_tokens
from tests.e2e.test_server import Embedded, embedded, jpeg

MODEL = "mmload-embedded"
WORDS = "Lorem ipsum dolor sit"
IMAGE_TOKENS = count_tokens("image", 1, 96, 128)
PICTURE = base64.b64encode(jpeg(96, 128)).decode()
DATA_URI = f"data:image/jpeg;base64,{PICTURE}"
NO_PICTURE = base64.b64encode(b"no picture at all").decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    folder = tmp_path_factory.mktemp("server")
    with embedded(folder, "--decode-step-ms=1", "--max-body-mib=1") as running:
        yield running


@pytest.fixture
def gpt(server: Embedded) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(server: Embedded) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        yield client


def chat_content(url: str = DATA_URI) -> Any:
    image = {"type": "image_url", "image_url": {"url": url, "detail": "auto"}}
    return [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]


def response_input(url: str = DATA_URI) -> Any:
    image = {"type": "input_image", "image_url": url, "detail": "auto"}
    return [{"role": "user", "content": [image, {"type": "input_text", "text": "What is it?"}]}]


def message_content(data: str = PICTURE) -> Any:
    source = {"type": "base64", "media_type": "image/jpeg", "data": data}
    blocks = [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}]
    return [{"role": "user", "content": blocks}]


# -- OpenAI: chat --------------------------------------------------------------------------------


def test_chat(gpt: openai.OpenAI) -> None:
    answer = gpt.chat.completions.create(model=MODEL, messages=chat_content(), max_tokens=4)
    assert answer.object == "chat.completion" and answer.model == MODEL
    [choice] = answer.choices
    assert (choice.message.role, choice.message.content) == ("assistant", WORDS)
    assert choice.finish_reason == "length"
    usage = answer.usage
    assert usage is not None and usage.completion_tokens == 4
    assert usage.total_tokens == usage.prompt_tokens + 4 > IMAGE_TOKENS
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 0


def test_chat_streamed(gpt: openai.OpenAI) -> None:
    chunks = list(
        gpt.chat.completions.create(
            model=MODEL,
            messages=chat_content(),
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert [c.object for c in chunks] == ["chat.completion.chunk"] * 7
    assert chunks[0].choices[0].delta.role == "assistant"
    words = [chunk.choices[0].delta.content for chunk in chunks[1:5]]
    assert words == ["Lorem", " ipsum", " dolor", " sit"]
    assert chunks[5].choices[0].finish_reason == "length"
    assert chunks[6].choices == [] and chunks[6].usage is not None
    assert chunks[6].usage.completion_tokens == 4


def test_chats_own_stream_helper(gpt: openai.OpenAI) -> None:
    with gpt.chat.completions.stream(model=MODEL, messages=chat_content(), max_tokens=100) as s:
        kinds = {event.type for event in s}
        final = s.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].finish_reason == "stop"
    assert str(final.choices[0].message.content).startswith(WORDS)


def test_completions(gpt: openai.OpenAI) -> None:
    whole = gpt.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=4)
    assert (whole.object, whole.choices[0].text) == ("text_completion", WORDS)
    assert whole.usage is not None and whole.usage.completion_tokens == 4
    chunks = list(gpt.completions.create(model=MODEL, prompt="Once", max_tokens=4, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == WORDS
    assert chunks[-1].choices[0].finish_reason == "length"


def test_a_completions_prompt_has_no_template(gpt: openai.OpenAI) -> None:
    plain = gpt.completions.create(model=MODEL, prompt="a cat", max_tokens=1).usage
    chat: Any = [{"role": "user", "content": "a cat"}]
    templated = gpt.chat.completions.create(model=MODEL, messages=chat, max_tokens=1).usage
    assert plain is not None and templated is not None
    # <|im_start|> user \n ... <|im_end|> \n, <|im_start|> and "assistant", \n
    assert templated.prompt_tokens - plain.prompt_tokens == 3 + 2 + 3


# -- OpenAI: Responses ---------------------------------------------------------------------------


def test_a_response(gpt: openai.OpenAI) -> None:
    answer = gpt.responses.create(model=MODEL, input=response_input(), max_output_tokens=4)
    assert answer.object == "response" and answer.output_text == WORDS
    assert answer.status == "incomplete"
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.usage is not None and answer.usage.output_tokens == 4
    assert answer.usage.input_tokens > IMAGE_TOKENS
    ended = gpt.responses.create(model=MODEL, input="Hi", instructions="Be brief.")
    assert ended.status == "completed" and ended.output_text.startswith(WORDS)


def test_a_response_streamed(gpt: openai.OpenAI) -> None:
    request: dict[str, Any] = {"model": MODEL, "input": response_input(), "max_output_tokens": 4}
    events = list(gpt.responses.create(stream=True, **request))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 4,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert [event.sequence_number for event in events] == list(range(12))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.output_text == WORDS


def test_the_responses_stream_helper(gpt: openai.OpenAI) -> None:
    """It puts the answer together from the events, and complains of ones out of order."""
    with gpt.responses.stream(model=MODEL, input=response_input()) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert len(deltas) == 64 and final.output_text == "".join(deltas)
    assert final.usage is not None and final.usage.output_tokens == 64


def test_a_conversation_in_responses(gpt: openai.OpenAI) -> None:
    first = gpt.responses.create(model=MODEL, input=response_input(), max_output_tokens=4)
    again: Any = [*response_input(), *(item.to_dict() for item in first.output)]
    again.append({"role": "user", "content": "And now?"})
    second = gpt.responses.create(model=MODEL, input=again, max_output_tokens=4)
    assert first.usage is not None and second.usage is not None
    assert second.usage.input_tokens > first.usage.input_tokens


# -- Anthropic -----------------------------------------------------------------------------------


def test_a_message(claude: anthropic.Anthropic) -> None:
    answer = claude.messages.create(model=MODEL, max_tokens=4, messages=message_content())
    assert (answer.type, answer.role, answer.model) == ("message", "assistant", MODEL)
    [block] = answer.content
    assert block.type == "text" and block.text == WORDS
    assert answer.stop_reason == "max_tokens"
    assert answer.usage.output_tokens == 4 and answer.usage.input_tokens > IMAGE_TOKENS


def test_a_message_streamed(claude: anthropic.Anthropic) -> None:
    events = list(
        claude.messages.create(model=MODEL, max_tokens=4, messages=message_content(), stream=True)
    )
    # the client keeps pings to itself
    assert [event.type for event in events] == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 4,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_messages_stream_helper(claude: anthropic.Anthropic) -> None:
    request: dict[str, Any] = {"model": MODEL, "messages": message_content(), "max_tokens": 100}
    with claude.messages.stream(system=[{"type": "text", "text": "Be brief."}], **request) as s:
        words = list(s.text_stream)
        final = s.get_final_message()
    assert len(words) == 64 and final.stop_reason == "end_turn"
    assert final.content[0].type == "text" and final.content[0].text == "".join(words)
    assert final.usage.output_tokens == 64 and final.usage.input_tokens > IMAGE_TOKENS


def test_the_three_count_the_same_prompt(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    chat = gpt.chat.completions.create(model=MODEL, messages=chat_content(), max_tokens=1)
    answer = gpt.responses.create(model=MODEL, input=response_input(), max_output_tokens=1)
    message = claude.messages.create(model=MODEL, max_tokens=1, messages=message_content())
    assert chat.usage is not None and answer.usage is not None
    counted = {chat.usage.prompt_tokens, answer.usage.input_tokens, message.usage.input_tokens}
    assert len(counted) == 1


# -- model lists ---------------------------------------------------------------------------------


def test_both_clients_read_the_model_list(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    [listed] = gpt.models.list()
    assert (listed.id, listed.object, listed.owned_by) == (MODEL, "model", "mmload")
    assert gpt.models.retrieve(MODEL) == listed
    [other] = claude.models.list()
    assert (other.id, other.type, other.display_name) == (MODEL, "model", MODEL)
    assert int(other.created_at.timestamp()) == listed.created
    assert claude.models.retrieve(MODEL) == other


# -- errors --------------------------------------------------------------------------------------

LARGE = "x" * (1 << 20)


def test_openais_error_classes(gpt: openai.OpenAI) -> None:
    chat = gpt.chat.completions.create
    with pytest.raises(openai.NotFoundError) as missing:
        chat(model="other", messages=chat_content())
    assert missing.value.code == "model_not_found" and "mmload-embedded" in missing.value.message
    with pytest.raises(openai.BadRequestError) as bad:
        chat(model=MODEL, messages=chat_content(f"data:image/jpeg;base64,{NO_PICTURE}"))
    assert bad.value.code == "invalid_media" and "cannot be decoded" in bad.value.message
    with pytest.raises(openai.BadRequestError) as bad:  # before a stream begins, too
        chat(model=MODEL, messages=chat_content("data:image/jpeg;base64,&&"), stream=True)
    assert "not valid base64" in bad.value.message
    with pytest.raises(openai.BadRequestError, match="max_tokens: must be"):
        chat(model=MODEL, messages=chat_content(), max_tokens=0)
    with pytest.raises(openai.APIStatusError) as large:
        chat(model=MODEL, messages=[{"role": "user", "content": LARGE}])
    assert large.value.status_code == 413 and "1 MiB" in large.value.message
    responses = gpt.responses.create
    with pytest.raises(openai.NotFoundError):
        responses(model="other", input="Hi")
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        responses(model=MODEL, input="Hi", previous_response_id="resp_1")
    with pytest.raises(openai.BadRequestError, match="cannot be decoded"):
        responses(model=MODEL, input=response_input(f"data:image/png;base64,{NO_PICTURE}"))
    with pytest.raises(openai.BadRequestError, match=r"prompt: must be a string"):
        gpt.completions.create(model=MODEL, prompt=[1, 2, 3])
    with pytest.raises(openai.NotFoundError):
        gpt.models.retrieve("other")
    with pytest.raises(openai.NotFoundError):
        gpt.embeddings.create(model=MODEL, input="Hi")


def test_anthropics_error_classes(claude: anthropic.Anthropic) -> None:
    create = claude.messages.create

    def kind(error: anthropic.APIStatusError) -> Any:
        body: Any = error.body
        assert body["type"] == "error"
        return body["error"]["type"]

    with pytest.raises(anthropic.NotFoundError) as missing:
        create(model="other", max_tokens=4, messages=message_content())
    assert kind(missing.value) == "not_found_error" and "mmload-embedded" in str(missing.value)
    with pytest.raises(anthropic.BadRequestError) as bad:
        create(model=MODEL, max_tokens=4, messages=message_content(NO_PICTURE))
    assert kind(bad.value) == "invalid_request_error" and "cannot be decoded" in str(bad.value)
    with pytest.raises(anthropic.BadRequestError, match="max_tokens: must be"):
        create(model=MODEL, max_tokens=0, messages=message_content(), stream=True)
    with pytest.raises(anthropic.BadRequestError, match="'document' is not supported"):
        content: Any = [{"type": "document", "source": {}}]
        create(model=MODEL, max_tokens=4, messages=[{"role": "user", "content": content}])
    with pytest.raises(anthropic.APIStatusError) as large:
        create(model=MODEL, max_tokens=4, messages=[{"role": "user", "content": LARGE}])
    assert large.value.status_code == 413 and kind(large.value) == "request_too_large"
    with pytest.raises(anthropic.NotFoundError):
        claude.models.retrieve("other")
    with pytest.raises(
        anthropic.NotFoundError
    ) as nowhere:  # no such path: in its shape all the same
        claude.messages.count_tokens(model=MODEL, messages=message_content())
    assert kind(nowhere.value) == "not_found_error"


def test_images_by_url(gpt: openai.OpenAI, claude: anthropic.Anthropic, tmp_path: Path) -> None:
    """From loopback alone: the embedded server is no way to other hosts."""
    url = "http://127.0.0.1:1/a.jpg"
    source: Any = {"type": "url", "url": url}
    content: Any = [{"role": "user", "content": [{"type": "image", "source": source}]}]
    with pytest.raises(openai.BadRequestError, match="fetching"):
        gpt.responses.create(model=MODEL, input=response_input(url))
    with pytest.raises(anthropic.BadRequestError, match="fetching"):
        claude.messages.create(model=MODEL, max_tokens=4, messages=content)
    with pytest.raises(openai.BadRequestError, match="loopback addresses only"):
        gpt.responses.create(model=MODEL, input=response_input("https://example.com/a.jpg"))
