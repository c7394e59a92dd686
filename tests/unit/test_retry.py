"""When a request is sent again, and how long that waits (RFC 9110, 10.2.3)."""

import pytest

from mmload.load.retry import wait_ns

S = 1_000_000_000


@pytest.mark.parametrize(
    ("failed", "headers", "wait_s"),
    [
        (1, {}, 0.5),
        (2, {}, 1),
        (3, {}, 2),
        (4, {}, 4),
        (5, {}, 8),
        (6, {}, 8),
        (1, {b"retry-after": b"3"}, 3),
        (4, {b"retry-after": b"0"}, 0),
        (1, {b"retry-after": b"0.25"}, 0.25),
        (1, {b"retry-after": b"soon"}, 0.5),
        (1, {b"retry-after": b"-1"}, 0.5),
        (1, {b"retry-after": b"nan"}, 0.5),
        (1, {b"retry-after": b""}, 0.5),
        (
            1,  # a date counts from the server's own Date, whatever this host's clock says
            {
                b"retry-after": b"Wed, 21 Oct 2015 07:28:12 GMT",
                b"date": b"Wed, 21 Oct 2015 07:28:00 GMT",
            },
            12,
        ),
        (1, {b"retry-after": b"Wed, 21 Oct 2015 07:28:12 GMT"}, 0.5),
    ],
)
def test_waits(failed: int, headers: dict[bytes, bytes], wait_s: float) -> None:
    assert wait_ns(failed, headers) == round(wait_s * S)
