"""The wire between the caller and the launcher's children, and what it carries.

A request travels from the trusted side by marshal, which needs no import and keeps
bytes. Answers come from the supervisor of an untrusted target, so they are JSON lines
of bounded length.
"""

from __future__ import annotations

import array
import json
import marshal
import os
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("=Q")
_MAX_FDS = 8
ANSWER_LIMIT_BYTES = 1 << 16

Request = dict[str, Any]


def send_request(sock: socket.socket, request: Request, fds: list[int]) -> None:
    """Send one request with the descriptors that the target will own."""
    body = marshal.dumps(request)
    head = _LENGTH.pack(len(body))
    control = (
        []
        if not fds
        else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    )
    sock.sendmsg([head], control)
    sock.sendall(body)


def receive_request(sock: socket.socket) -> tuple[Request, list[int]]:
    """Receive what `send_request` sent.

    Raises:
        EOFError: If the caller went away.
    """
    space = socket.CMSG_SPACE(_MAX_FDS * 4)
    head, control, _, _ = sock.recvmsg(_LENGTH.size, space, socket.MSG_CMSG_CLOEXEC)
    if len(head) < _LENGTH.size:
        raise EOFError
    fds = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    (length,) = _LENGTH.unpack(head)
    try:
        body = _receive_exactly(sock, length)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    request: Request = marshal.loads(body)  # noqa: S302 - the caller wrote it
    return request, list(fds)


def _receive_exactly(sock: socket.socket, length: int) -> bytearray:
    body = bytearray()
    while len(body) < length:
        chunk = sock.recv(min(length - len(body), 1 << 20))
        if not chunk:
            raise EOFError
        body += chunk
    return body


def send_answer(sock: socket.socket, answer: dict[str, object]) -> None:
    """Send one JSON line; a caller that went away is no error."""
    try:
        sock.sendall(json.dumps(answer).encode() + b"\n")
    except OSError:
        return
