"""A process between mmload and a server: everything that the server starts ends with it.

In: a JSON line on standard input: "argv", "env", "unset", "cpus", "patience_s", "tell". The server
gets this process's standard output and error, and no standard input. When standard input closes
(mmload is done with the server, or is no more: a kill -9 closes it too) or when the server ends by
itself, all that descends from it is ended: the server is asked (SIGTERM) and given patience, then
the rest is, then what is left is killed. On Linux orphans are adopted, so that a process which left
its group, its session and its parent is found as well; and should this process itself be killed,
the server is asked to end (SIGTERM). Out: the server's exit code, as a line on
the descriptor `tell` as soon as it has ended, and as its own; 128 + n for signal n.

Run as a file, so that it starts at once: standard library, and psutil when it comes to the end. It
must never outlive what it keeps, nor end before it.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
END_SIGNS: Final = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
NOT_STARTED: Final = 127
KILL_WAIT_S: Final = 5.0
CHECK_S: Final = 0.05

Process = subprocess.Popen[bytes]


def main() -> int:
    line = sys.stdin.buffer.readline()
    if not line:
        return 0  # mmload has gone already
    order: dict[str, Any] = json.loads(line)
    adopt_orphans()
    if order["cpus"]:
        os.sched_setaffinity(0, order["cpus"])
    woken = wake_up_on_signals()
    try:
        server = subprocess.Popen(
            order["argv"],
            env=environment_of(order),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=end_with_its_parent,  # no other thread is here that it could trip over
        )
    except OSError as error:
        print(f"{order['argv'][0]}: cannot be started: {error.strerror}", file=sys.stderr)
        return NOT_STARTED
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # the server's alone from here on: it ends when that does
    try:
        wait_for_an_end(server, woken)
        if server.returncode is not None:
            with contextlib.suppress(OSError):
                os.write(order["tell"], b"%d\n" % exit_code(server))
    finally:
        end_all(server, order["patience_s"])
    return exit_code(server)


def environment_of(order: dict[str, Any]) -> dict[str, str]:
    """This process's, without the unset variables, with the asked-for ones."""
    inherited = {name: v for name, v in os.environ.items() if name not in order["unset"]}
    return {**inherited, **order["env"]}


def adopt_orphans() -> None:
    """Descendants whose parent ends become ours instead of init's. Only Linux can."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_its_parent() -> None:
    """The process that calls is asked to end when its parent is no more. Only Linux can."""
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def wake_up_on_signals() -> int:
    """A descriptor that gives a byte for each signal, its number."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    for number in (signal.SIGCHLD, *END_SIGNS):
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return woken


def wait_for_an_end(server: Process, woken: int) -> None:
    """Until the server has ended, or nobody wants it any more."""
    while True:
        reap(server)
        if server.returncode is not None:
            return
        ready, _, _ = select.select([0, woken], [], [])
        if 0 in ready and not os.read(0, 4096):
            return
        if woken in ready and END_SIGNS & set(os.read(woken, 4096)):
            return


def exit_code(server: Process) -> int:
    """As a shell gives it."""
    code = server.returncode or 0
    return 128 - code if code < 0 else code


def reap(server: Process) -> None:
    """Collects every child that has ended, adopted ones too."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid == server.pid:
                server.returncode = os.waitstatus_to_exitcode(status)


def end_all(server: Process, patience_s: float) -> None:
    """The server first, since a good one ends its own children in good order; then the others."""
    import psutil

    me, known = psutil.Process(), set[psutil.Process]()

    def living() -> set[psutil.Process]:
        reap(server)
        known.update(me.children(recursive=True))  # remembered: where orphans are not adopted
        return {process for process in known if alive(process)}

    def tell(sign: int, wait_s: float, only: int | None = None) -> None:
        told = set[psutil.Process]()
        deadline_s = time.monotonic() + wait_s
        while time.monotonic() < deadline_s:
            left = {p for p in living() if only is None or p.pid == only}
            if not left:
                return
            for process in left - told:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(sign)
            told |= left
            time.sleep(CHECK_S)

    def alive(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    tell(signal.SIGTERM, patience_s, only=server.pid)
    tell(signal.SIGTERM, patience_s)
    tell(signal.SIGKILL, KILL_WAIT_S)


if __name__ == "__main__":
    sys.exit(main())
