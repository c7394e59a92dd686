"""The exception tree. Each error carries its exit code and, where there is one, the fix.

    MmloadError            1  something in the tool failed
    ├── UsageError         2  a flag, a scenario key, a file or an address is wrong
    ├── InvalidRun         3  the measurement does not say what it should
    ├── ThresholdFailed    4  an SLO or a comparison failed
    └── Interrupted      130  the user stopped it; what was recorded is kept

Only `mmload.cli` turns these into exit codes. A message is one line that names the file, key and
value, says what is allowed, and leaves the fix to `hint`.
"""


class MmloadError(Exception):
    """Something in the tool failed; `hint` is the fix, a sentence, or empty."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MmloadError):
    """A flag, scenario key, file or address is wrong. Nothing was measured."""

    exit_code = 2


class InvalidRun(MmloadError):
    """The measurement is INVALID: for instance, the generator did not keep up."""

    exit_code = 3


class ThresholdFailed(MmloadError):
    """A stated SLO or a comparison's threshold was not met."""

    exit_code = 4


class Interrupted(MmloadError):
    """The user stopped the run; the partial run is on disk."""

    exit_code = 130
