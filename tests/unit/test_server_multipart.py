"""Forms as browsers and libraries send them; any bytes give fields or one ValueError."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmload.server.multipart import FormField, form_fields

TYPE = "multipart/form-data; boundary=B"
FORM = (
    b'--B\r\nContent-Disposition: form-data; name="image"; filename="a b.jpg"\r\n'
    b"Content-Type: image/jpeg\r\n\r\n\xff\xd8\r\n--C\r\n\r\n\x00\r\n--B\r\n"
    b'content-disposition: form-data; name="prompt"\r\n\r\nWhat?\r\n--B--\r\n'
)


def test_fields_in_their_order_bytes_untouched() -> None:
    image = FormField("image", b"\xff\xd8\r\n--C\r\n\r\n\x00", is_file=True)
    prompt = FormField("prompt", b"What?", is_file=False)
    assert form_fields(FORM, TYPE) == [image, prompt]
    assert form_fields(FORM, 'Multipart/Form-Data; charset=utf-8; boundary="B"') == [image, prompt]
    assert form_fields(b"a preamble\r\n" + FORM + b"an epilogue", TYPE) == [image, prompt]
    assert form_fields(b"--B--", TYPE) == []


def test_a_filename_is_not_a_name() -> None:
    body = b'--B\r\nContent-Disposition: form-data; filename="x"; name=image\r\n\r\n\r\n--B--'
    assert form_fields(body, TYPE) == [FormField("image", b"", is_file=True)]


@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (FORM, "application/json", "must be multipart/form-data"),
        (FORM, "multipart/form-data", "names no boundary"),
        (FORM, "multipart/form-data; boundary=X", "no end"),
        (FORM[:-6], TYPE, "no end"),
        (b"", TYPE, "no end"),
        (b"--B\r\n\r\nx\r\n--B--", TYPE, "no name"),
        (b"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--", TYPE, "no name"),
    ],
)
def test_what_is_no_form(body: bytes, content_type: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        form_fields(body, content_type)


@given(st.binary(max_size=200), st.integers(0, len(FORM)), st.text(max_size=40))
@settings(deadline=None)
def test_any_bytes(junk: bytes, at: int, content_type: str) -> None:
    for body, kind in ((FORM[:at] + junk + FORM[at:], TYPE), (junk, TYPE), (FORM, content_type)):
        try:
            fields = form_fields(body, kind)
        except ValueError:
            continue
        assert all(isinstance(field, FormField) for field in fields)
