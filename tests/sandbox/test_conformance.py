"""One table for every backend: what a policy allows works, what it closes does not.

A backend must pass the rows of the guarantees it declares on this host. The table
is the same on macOS.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.sandbox import (
    BaseSandboxExecutor,
    Guarantee,
    ResourceLimits,
    SandboxError,
    SandboxPolicy,
)
from lazycore.sandbox._select import backends

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.once

OK = "ok"
REFUSED = "refused"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One action under one policy; `%` in either stands for the folder."""

    name: str
    action: str
    expected: str
    policy: dict[str, Any] = field(default_factory=dict)
    needs: tuple[Guarantee, ...] = ()
    python: bool = False


READ = {"allowed_read_paths": ["%/shown"]}
WRITE = {"allowed_write_paths": ["%/work"]}
DENY = {
    "allowed_read_paths": ["%/shown"],
    "denied_paths": ["%/shown/inner"],
}
FS_READ, FS_WRITE = (Guarantee.FS_READ,), (Guarantee.FS_WRITE,)
METADATA, NETWORK = (Guarantee.FS_METADATA,), (Guarantee.NO_NETWORK,)

SHELL: list[tuple[str, str, str, dict[str, Any], tuple[Guarantee, ...]]] = [
    ("a listed file is read", "cat %/shown/file", OK, READ, ()),
    ("a listed tree is listed", "ls -R %/shown", OK, READ, ()),
    ("a single file can be listed", "cat %/shown/file", OK,
     {"allowed_read_paths": ["%/shown/file"]}, ()),
    ("its neighbour stays closed", "cat %/shown/other", REFUSED,
     {"allowed_read_paths": ["%/shown/file"]}, FS_READ),
    ("an unlisted file is not read", "cat %/hidden/file", REFUSED, READ, FS_READ),
    ("an unlisted file has no size", "stat %/hidden/file", REFUSED, READ, METADATA),
    ("a prefix of a name is no parent", "cat %/shown2/file", REFUSED, READ, FS_READ),
    ("a read path is not written", "echo x > %/shown/file", REFUSED, READ, FS_WRITE),
    ("nor created in", "echo x > %/shown/new", REFUSED, READ, FS_WRITE),
    ("nor removed from", "rm %/shown/file", REFUSED, READ, FS_WRITE),
    ("a write path is written", "echo x > %/work/new && cat %/work/new", OK, WRITE, ()),
    ("directories are made and removed", "mkdir %/work/d && rmdir %/work/d", OK, WRITE,
     ()),
    ("files are renamed within", "mv %/work/file %/work/moved", OK, WRITE, ()),
    ("a mode is set within", "chmod 700 %/work/file", OK, WRITE, ()),
    ("links are made within", "ln -s file %/work/l && cat %/work/l", OK, WRITE, ()),
    ("a program of a write path runs", "cp /bin/sh %/work/p && %/work/p -c :", OK,
     WRITE, ()),
    ("a denied tree is closed", "cat %/shown/inner/file", REFUSED, DENY,
     (Guarantee.DENY_IN_ALLOW,)),
    ("what lies beside it is not", "cat %/shown/file", OK, DENY,
     (Guarantee.DENY_IN_ALLOW,)),
    ("the scratch space is written", "echo x > $TMPDIR/x && cat $TMPDIR/x", OK, {}, ()),
    ("home is the scratch space", 'cd && test "$PWD" = "$HOME" && touch x', OK, {}, ()),
    ("a cwd is taken", 'test "$PWD" = %/work', OK, {**WRITE, "cwd": "%/work"}, ()),
    ("variables arrive", 'test "$A$B" = "1é"', OK, {"env": {"A": "1", "B": "é"}}, ()),
    ("pipes and subshells work", 'test "$(echo a | tr a b)" = b', OK, {}, ()),
    ("here-documents work", "cat <<E >/dev/null\nx\nE", OK, {}, ()),
    ("devices of a program work", "head -c 9 /dev/urandom >/dev/null && : </dev/zero",
     OK, {}, ()),
    ("a listed program runs", "/bin/sh -c :", OK, {"allowed_executables": ["/bin/sh"]},
     (Guarantee.EXEC_LIST,)),
    ("an unlisted one does not", "/bin/cat /dev/null", REFUSED,
     {"allowed_executables": ["/bin/sh"]}, (Guarantee.EXEC_LIST,)),
]  # fmt: skip

PYTHON: list[tuple[str, str, str, dict[str, Any], tuple[Guarantee, ...]]] = [
    ("threads run",
     "import threading as t; x=t.Thread(target=int); x.start(); x.join()",
     OK, {}, ()),
    ("children run", "import subprocess as s; s.run(['/bin/true'], check=True)", OK, {},
     ()),
    ("asyncio hands work to threads",
     "import asyncio as a; a.run(a.to_thread(int))", OK, {}, ()),
    ("temporary files are made",
     "import tempfile as t; t.NamedTemporaryFile().write(b'x')", OK, {}, ()),
    ("socket pairs talk",
     "import socket as s; a,b=s.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
     OK, {}, ()),
    ("memory is mapped", "import mmap; mmap.mmap(-1, 4096)[0:1] == b'x'", OK, {}, ()),
    ("nothing connects out",
     "import socket as s; s.create_connection(('127.0.0.1', PORT), 1)", REFUSED, {},
     NETWORK),
    ("a shared network connects",
     "import socket as s; s.create_connection(('127.0.0.1', PORT), 1)", OK,
     {"allow_network": True}, ()),
    ("a limit on files holds",
     "import os; open('%/work/f', 'wb').write(b'x' * 200000)", REFUSED,
     {**WRITE, "limits": ResourceLimits(file_size_bytes=1000)}, ()),
    ("open files are bounded", "x=[open('/dev/null') for _ in range(99)]", REFUSED,
     {"limits": ResourceLimits(open_files=64)}, ()),
]  # fmt: skip

ROWS = [
    *(Row(name=n, action=a, expected=e, policy=p, needs=g) for n, a, e, p, g in SHELL),
    *(
        Row(name=n, action=a, expected=e, policy=p, needs=g, python=True)
        for n, a, e, p, g in PYTHON
    ),
]


@pytest.fixture(scope="module", params=[backend.name for backend in backends()])
def engine(request: pytest.FixtureRequest) -> Iterator[BaseSandboxExecutor]:
    """Give each backend, told to run whatever it is given."""
    (backend,) = (each for each in backends() if each.name == request.param)
    report = backend.probe()
    if not report.available:
        pytest.skip(f"the backend {backend.name} cannot run here: {report.reason}")
    with backend(allow_degraded=frozenset(Guarantee)) as executor:
        yield executor


@pytest.fixture
def place(folder: Path) -> Path:
    for name in ("shown/inner", "shown2", "hidden", "work"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("content\n")
    (folder / "shown" / "file").write_text("content\n")
    (folder / "shown" / "other").write_text("content\n")
    return folder


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def filled(value: Any, place: Path) -> Any:
    if isinstance(value, str):
        return value.replace("%", str(place))
    return [filled(each, place) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name.replace(" ", "-"))
def test_what_is_allowed_works_and_what_is_closed_does_not(
    engine: BaseSandboxExecutor, place: Path, port: int, row: Row
) -> None:
    if frozenset(row.needs) - engine.probe().guarantees:
        return  # the attack corpus shows what the backend does there
    fields = {name: filled(value, place) for name, value in row.policy.items()}
    action = filled(row.action, place).replace("PORT", str(port))
    argv = ["/bin/sh", "-ec", action]
    if row.python:
        argv = [sys.executable, "-I", "-S", "-c", action]
    policy = SandboxPolicy(**{"timeout_s": 20, **fields})
    try:
        result = engine.run_command(argv, policy)
    except SandboxError as error:
        seen, story = REFUSED, str(error)
    else:
        seen = OK if result.returncode == 0 else REFUSED
        story = result.stderr_text
        assert not result.timed_out
    assert seen == row.expected, story


def test_the_host_is_as_it_was_after_the_refusals(
    engine: BaseSandboxExecutor, place: Path
) -> None:
    before = sorted(
        (str(path), path.lstat().st_mode, path.lstat().st_size)
        for path in place.rglob("*")
    )
    for row in ROWS:
        if row.python or row.expected == OK or "allowed_write_paths" in row.policy:
            continue
        if frozenset(row.needs) - engine.probe().guarantees:
            continue
        fields = {name: filled(value, place) for name, value in row.policy.items()}
        try:
            engine.run_command(
                ["/bin/sh", "-c", filled(row.action, place)], SandboxPolicy(**fields)
            )
        except SandboxError:
            continue
    after = sorted(
        (str(path), path.lstat().st_mode, path.lstat().st_size)
        for path in place.rglob("*")
    )
    assert after == before


def test_the_table_needs_nothing_but_a_shell_and_python() -> None:
    for name in ("sh", "cat", "ls", "cp", "mv", "ln", "rm", "stat", "head", "tr"):
        assert shutil.which(name, path=os.defpath), name
