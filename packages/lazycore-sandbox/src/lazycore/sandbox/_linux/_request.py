"""The wire between the caller and the launcher's children, and what it carries.

A request travels from the trusted side by marshal, which needs no import and keeps
bytes. Answers come from the supervisor of an untrusted target, so they are JSON lines
of bounded length.
"""

from __future__ import annotations

import json
import marshal
import os
import struct
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._linux._children import receive_fds, send_fds

if TYPE_CHECKING:
    import socket

_LENGTH = struct.Struct("=Q")
_MAX_FDS = 8
ANSWER_LIMIT_BYTES = 1 << 16

Request = dict[str, Any]


def send_request(sock: socket.socket, request: Request, fds: list[int]) -> None:
    """Send one request with the descriptors that the target will own."""
    body = marshal.dumps(request)
    head = _LENGTH.pack(len(body))
    if fds:
        send_fds(sock, head, fds)
    else:
        sock.sendall(head)
    sock.sendall(body)


def receive_request(sock: socket.socket) -> tuple[Request, list[int]]:
    """Receive what `send_request` sent.

    Raises:
        EOFError: If the caller went away.
    """
    head, fds = receive_fds(sock, _LENGTH.size, _MAX_FDS)
    try:
        body = _receive_body(sock, head)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    request: Request = marshal.loads(body)  # noqa: S302 - the caller wrote it
    return request, fds


def _receive_body(sock: socket.socket, head: bytes) -> bytearray:
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
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
