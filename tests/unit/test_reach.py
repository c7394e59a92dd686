"""How to reach a server: URLs, headers, keys, certificates, proxies. Values by hand and by RFC."""

import base64
import socket
from pathlib import Path
from typing import Any

import pytest

from mmload.errors import UsageError
from mmload.load.proxy import Proxy, parse_proxy, proxy_from_environment
from mmload.load.reach import Reach, reach_from
from mmload.load.target import Target, parse_target, without_credentials

CHAT = "/chat/completions"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MMLOAD_API_KEY", "OPENAI_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)


def headers(target: Target, **given: Any) -> dict[str, str]:
    head = target.head("POST", "/v1/x", "application/json", 7, **given).decode("latin-1")
    lines = head.split("\r\n")
    assert lines[-1] == ""
    pairs = [line.split(": ", 1) for line in lines[1:-1]]
    assert len({name.lower() for name, _ in pairs}) == len(pairs), "a header twice"
    return dict((name, value) for name, value in pairs)


@pytest.mark.parametrize(
    ("url", "display"),
    [
        ("http://h:8000", "http://h:8000/v1"),
        ("http://h:8000/", "http://h:8000/v1"),
        ("http://h:8000/v1", "http://h:8000/v1"),
        ("http://h:8000/v1/", "http://h:8000/v1"),
        ("h:8000", "http://h:8000/v1"),
        ("http://h", "http://h:80/v1"),
        ("https://h", "https://h:443/v1"),
        ("http://h/some/prefix/", "http://h:80/some/prefix/v1"),
        ("http://h/some/prefix/v1", "http://h:80/some/prefix/v1"),
        ("http://h/v1/chat/completions", "http://h:80/v1"),
        ("http://h/v1/chat/completions/", "http://h:80/v1"),
        ("https://h/v1beta/openai/chat/completions", "https://h:443/v1beta/openai"),
        ("https://h/api/v3", "https://h:443/api/v3"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
        ("http://[::1]", "http://[::1]:80/v1"),
        ("HTTP://H:8000/V", "http://h:8000/V/v1"),
    ],
)
def test_base_urls(url: str, display: str) -> None:
    assert parse_target(url, Reach(), CHAT).display == display


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("http://u:p@h:1/x@y/", "http://h:1/x@y/"),
        ("sk-key@[::1]:1", "http://[::1]:1"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
    ],
)
def test_a_url_is_written_as_it_was_typed_but_for_credentials(url: str, written: str) -> None:
    assert without_credentials(url) == written


def test_an_api_without_a_version_has_none_put_in() -> None:
    assert parse_target("http://h", Reach(), "/predict", versioned=False).display == "http://h:80"
    whole = parse_target("http://h/predict", Reach(), "/predict", versioned=False)
    assert whole.base_path == ""


@pytest.mark.parametrize(
    "url", ["ftp://h", "http://", "http://h:0", "http://h:99999", "http://h/?a=1", "http://h/#x"]
)
def test_wrong_urls(url: str) -> None:
    with pytest.raises(UsageError):
        parse_target(url, Reach(), CHAT)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h:8000", "h:8000"),
        ("http://h", "h"),
        ("https://h:443", "h"),
        ("https://h:80", "h:80"),
        ("http://[::1]:8000", "[::1]:8000"),
        ("http://[::1]", "[::1]"),
    ],
)
def test_the_host_header(url: str, host: str) -> None:
    assert headers(parse_target(url))["Host"] == host


def test_a_header_given_by_hand_replaces_ours_and_the_apis() -> None:
    given = ("User-Agent: me", "authorization: Token abc", "X-Team: a: b", "x-api-key: own")
    target = parse_target("http://h", Reach(header=given, api_key="sk-12345"))
    sent = headers(target, own={"X-Api-Key": "sk-12345", "anthropic-version": "1"})
    assert sent["User-Agent"] == "me" and sent["authorization"] == "Token abc"
    assert sent["X-Team"] == "a: b" and sent["x-api-key"] == "own"
    assert sent["anthropic-version"] == "1" and sent["Content-Length"] == "7"


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("no colon sk-secret", "--header"),
        (": sk-secret", "--header"),
        ("Bad name: sk-secret", "--header"),
        ("Content-Length: sk-secret", "Content-Length"),
        ("X-Request-Id: sk-secret", "X-Request-Id"),
        ("X: sk-secret\r\nInjected: 1", "X"),
        ("X: sk-secret \u2713", "X"),
    ],
)
def test_a_wrong_header_is_refused_without_its_value(given: str, word: str) -> None:
    with pytest.raises(UsageError) as error:
        reach_from({"header": [given]})
    said = error.value.message + error.value.hint
    assert word in said and "secret" not in said and "\n" not in said


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"connect_timeout": "0"}, ["--connect-timeout", "'0'", "greater than 0"]),
        ({"connect_timeout": "inf"}, ["--connect-timeout", "finite"]),
        ({"first_token_timeout": "soon"}, ["--first-token-timeout", "'soon'", "number"]),
        ({"insecure": True, "cacert": "x"}, ["--insecure", "--cacert"]),
    ],
)
def test_wrong_options(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        reach_from(values)
    for word in words:
        assert word in error.value.message


@pytest.mark.parametrize(
    ("url", "reach", "environment", "authorization"),
    [
        ("http://h", Reach(), None, None),
        ("http://h", Reach(), "sk-env", "Bearer sk-env"),
        ("http://h", Reach(api_key="sk-flag"), "sk-env", "Bearer sk-flag"),
        ("http://u:p@h", Reach(), "sk-env", "Basic dTpw"),  # base64 of "u:p"
        ("http://u:p@h", Reach(api_key="sk-flag"), None, "Bearer sk-flag"),
        ("http://h", Reach(api_key="k", header=("Authorization: X y",)), "sk-env", "X y"),
    ],
)
def test_which_key_wins(
    url: str,
    reach: Reach,
    environment: str | None,
    authorization: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if environment is not None:
        monkeypatch.setenv("OPENAI_API_KEY", environment)
    target = parse_target(url, reach)
    assert target.authorization == authorization
    assert headers(target).get("Authorization") == authorization


def test_every_form_of_a_credential_is_secret() -> None:
    reach = Reach(header=("X-Key: Token abcdef", "Cookie: sid=1234"), api_key="sk-flag")
    secrets = parse_target("http://user:p%40ss@h", reach).secrets
    basic = base64.b64encode(b"user:p@ss").decode()
    expected = {"Token abcdef", "abcdef", "sid=1234", "sk-flag", basic, "user:p@ss", "p@ss"}
    assert set(secrets) == expected | {"p%40ss"}
    # A key alone, where the name would be, is the secret itself.
    assert "sk-only" in parse_target("http://sk-only@h").secrets


def test_nothing_prints_a_secret() -> None:
    reach = Reach(api_key="sk-1", header=("X: sk-2",), proxy="http://u:sk-3@p:1")
    target = parse_target("https://u:sk-4@h", reach)
    for shown in (repr(reach), str(reach), repr(target), target.display, repr(target.proxy)):
        assert "sk-" not in shown


def test_a_key_that_no_header_can_carry() -> None:
    with pytest.raises(UsageError) as error:
        parse_target("http://h", Reach(api_key="kéy"))
    assert "--api-key" in error.value.message and "kéy" not in error.value.message


def test_certificates_are_checked_unless_told_otherwise(tmp_path: Path) -> None:
    tls = parse_target("https://h").tls
    assert tls is not None and tls.verify and tls.server_name == "h"
    assert parse_target("http://h").tls is None
    insecure = parse_target("https://h", Reach(insecure=True)).tls
    assert insecure is not None and not insecure.verify
    (tmp_path / "text.pem").write_text("no certificate")
    for name, why in (("nowhere.pem", "No such file"), ("text.pem", "no PEM")):
        with pytest.raises(UsageError) as error:
            parse_target("https://h", Reach(cacert=str(tmp_path / name)))
        assert name in error.value.message and why in error.value.message


# -- proxies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "display"),
    [
        ("http://p:3128", "http://p:3128"),
        ("p:3128", "http://p:3128"),
        ("http://p", "http://p:80"),
        ("http://u:pw@[::1]:8/", "http://[::1]:8"),
    ],
)
def test_proxy_addresses(text: str, display: str) -> None:
    assert parse_proxy(text, "--proxy").display == display


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("socks5://u:secret@p:1", "SOCKS"),
        ("https://u:secret@p:1", "TLS to a proxy"),
        ("ftp://p", "'ftp'"),
        ("http://p/path", "not a proxy"),
        ("http://u:secret@p:x", "not an address"),
    ],
)
def test_proxies_that_are_not_supported_are_refused_in_words(text: str, word: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_proxy(text, "--proxy")
    assert word in error.value.message and "secret" not in error.value.message


def test_what_a_proxy_hears() -> None:
    """RFC 9112: absolute form to an http server, CONNECT for an https one (RFC 9110)."""
    reach = Reach(proxy="http://u:p@127.0.0.1:3128")
    plain = parse_target("http://server.invalid:8000", reach)
    first, *rest = plain.head("POST", "/v1/x", None, 0).decode().split("\r\n")
    assert first == "POST http://server.invalid:8000/v1/x HTTP/1.1"
    assert "Host: server.invalid:8000" in rest and "Proxy-Authorization: Basic dTpw" in rest
    address = plain.resolve()  # the server's name is the proxy's to look up
    assert (address.sockaddr[:2], address.tunnel, address.tls) == (("127.0.0.1", 3128), None, None)

    secure = parse_target("https://server.invalid", reach)
    assert secure.head("POST", "/v1/x", None, 0).startswith(b"POST /v1/x HTTP/1.1\r\n")
    assert b"Proxy-Authorization" not in secure.head("POST", "/v1/x", None, 0)
    address = secure.resolve()
    assert address.sockaddr[:2] == ("127.0.0.1", 3128) and address.tls is not None
    assert address.tunnel == (
        b"CONNECT server.invalid:443 HTTP/1.1\r\nHost: server.invalid:443\r\n"
        b"Proxy-Authorization: Basic dTpw\r\n\r\n"
    )
    assert b"CONNECT [::1]:443 " in Proxy("p", 1).tunnel("::1", 443)


def test_the_environment_is_asked_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://p:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://q:2")
    monkeypatch.setenv("NO_PROXY", "localhost,.inner")
    assert parse_target("http://h").proxy is None
    trusting = Reach(trust_env=True)
    assert parse_target("http://h", trusting).proxy == Proxy("p", 1)
    assert parse_target("https://h", trusting).proxy == Proxy("q", 2)
    assert parse_target("http://localhost:8000", trusting).proxy is None
    assert parse_target("https://a.inner", trusting).proxy is None
    by_flag = Reach(trust_env=True, proxy="r:3")
    assert parse_target("http://localhost", by_flag).proxy == Proxy("r", 3)
    assert parse_target("http://h", trusting.directly()).proxy is None
    monkeypatch.setenv("http_proxy", "socks5://p:1")
    with pytest.raises(UsageError, match="HTTP_PROXY"):
        proxy_from_environment("http", "h", 80)


# -- names -----------------------------------------------------------------------------------------


def test_a_name_that_is_not_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(UsageError, match=r"http://h:80/v1: the host h cannot be found: Name or"):
        parse_target("http://h").resolve()
    with pytest.raises(UsageError, match=r"the proxy's host p cannot be found"):
        parse_target("http://h", Reach(proxy="p:1")).resolve()
