"""The server's processes on this host: who listens on a port, and who belongs to whom.

In: a process id, or the address that the load goes to. Out: process ids, found anew at every call,
since servers start and lose children. Whatever may not be read, or ends meanwhile, is left out.
Nothing here touches a process.
"""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterable
from typing import Any

import psutil


def tree(roots: Iterable[int]) -> list[int]:
    """The living processes among `roots` and everything that they started, in order, once each."""
    found: dict[int, None] = {}
    for root in roots:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(root)
            family = [process, *process.children(recursive=True)]
            found.update(dict.fromkeys(one.pid for one in family if _lives(one)))
    return list(found)


def topmost(pids: Iterable[int]) -> list[int]:
    """Those that no other of them started, directly or not."""
    all_of_them = set(pids)
    return sorted(pid for pid in all_of_them if not all_of_them.intersection(_ancestors(pid)))


def pythons(pids: Iterable[int]) -> list[int]:
    """Those whose program is a Python: a server may have been started by a shell."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            if "python" in os.path.basename(psutil.Process(pid).exe()).lower():
                found.append(pid)
    return found


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def listeners(port: int) -> list[int]:
    """Those that listen on a TCP port, without the ones that a listener started itself: a server
    with several workers shares its socket with them."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):  # macOS shows them to root alone
        return []
    found = {one.pid for one in connections if one.pid and _listens(one, port)}
    # Of the processes that share a socket the system names only one.
    return topmost(_top_holder(pid, port) for pid in found)


def _listens(connection: Any, port: int) -> bool:
    return bool(
        connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
    )


def _top_holder(pid: int, port: int) -> int:
    """The first of a line of parents that all hold the socket."""
    for parent in _ancestors(pid):
        try:
            held = psutil.Process(parent).net_connections(kind="tcp")
        except (psutil.Error, OSError):
            break
        if not any(_listens(one, port) for one in held):
            break
        pid = parent
    return pid


def _ancestors(pid: int) -> list[int]:
    """The nearest first."""
    try:
        return [one.pid for one in psutil.Process(pid).parents()]
    except psutil.Error:
        return []


def is_here(host: str) -> bool:
    """Whether a numeric address is one of this host's own."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    return any(
        one.address.partition("%")[0] == str(address)
        for family in psutil.net_if_addrs().values()
        for one in family
        if one.family in (socket.AF_INET, socket.AF_INET6)
    )


def command_of(pid: int) -> str:
    """The command line, cut to what a report has room for; empty when it may not be read."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return ""
    line = " ".join(words)
    return line if len(line) <= 160 else f"{line[:157]}..."


def cpu_s(pids: Iterable[int]) -> dict[int, float]:
    """Seconds of CPU that each process has used so far, all its threads together."""
    used = {}
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            if _lives(process):
                times = process.cpu_times()
                used[pid] = times.user + times.system
    return used
