"""A connection that could not be made, in words, and whose fault it was."""

import errno
import resource
import ssl
from typing import Final

from mmload.records import Outcome

CERTIFICATE: Final = "the server's certificate is not trusted"

_NO_DESCRIPTORS: Final = (errno.ENFILE, errno.EMFILE)
# Local ports, buffers or memory ran out: this side's limits, not the server's.
_OURS: Final = (*_NO_DESCRIPTORS, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM)


class TunnelRefused(OSError):
    """A proxy did not open a tunnel; the argument is its status line's code and reason."""


def describe(error: BaseException) -> str:
    """An OS error in the system's words."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()


def connect_failure(error: OSError) -> tuple[Outcome, str]:
    """Outcome and message of an attempt to connect that ended in `error`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Outcome.connection, f"connect: {CERTIFICATE}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or describe(error)).lower().replace("_", " ")
        return Outcome.connection, f"connect: TLS: {reason} (does the server speak https?)"
    if isinstance(error, TunnelRefused):
        said = f"HTTP {error}" if str(error) else "no HTTP answer"
        return Outcome.connection, f"connect: the proxy refused the tunnel: {said}"
    if error.errno in _NO_DESCRIPTORS:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        words = f"connect: {describe(error)}: raise the limit of open files, {limit} (ulimit -n)"
        return Outcome.client_error, words
    outcome = Outcome.client_error if error.errno in _OURS else Outcome.connection
    return outcome, f"connect: {describe(error)}"
