"""Attacks by links, by other spellings, and on the paths that a policy names."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._attacks._attack import (
    Attack,
    Inside,
    Outcome,
    Verdict,
    held,
    row,
    through,
)
from lazycore.sandbox._errors import SandboxError, SandboxPolicyError
from lazycore.sandbox._guarantees import Guarantee as Must

if TYPE_CHECKING:
    from lazycore.sandbox._attacks._stage import Stage
    from lazycore.sandbox._executor import BaseSandboxExecutor


def swapped_path(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Swap an allowed directory for a link to the secret while runs start."""
    target, spare = stage.path("work/swap"), stage.path("work/swap-spare")
    os.mkdir(target)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(target, spare)
            os.symlink(stage.path("hidden"), target)
            os.unlink(target)
            os.rename(spare, target)

    probe = Inside(body="def attack():\n    return read(a['work'] + '/swap/secret')\n")
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(15):
            policy = stage.policy(allowed_read_paths=[target], allowed_write_paths=[])
            try:
                result = probe.launch(stage, engine, policy)
            except SandboxError:
                continue  # the check met the link, or nothing at all
            verdict = probe.said(result)
            if verdict.outcome is not Outcome.HELD:
                return verdict
        return held("15 runs")
    finally:
        stop.set()
        swapper.join()
        shutil.rmtree(target, ignore_errors=True)


def _refused_by_policy(
    stage: Stage, engine: BaseSandboxExecutor, **changes: Any
) -> Verdict:
    try:
        result = engine.run_command(["/bin/sh", "-c", ":"], stage.policy(**changes))
    except SandboxPolicyError as error:
        return held(str(error)[:120])
    return through(f"ran with status {result.returncode}")


def linked_grant(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Grant a path in the workspace that a former run made a link to the secret."""
    link = stage.path("work/link")
    os.symlink(stage.path("hidden"), link)
    try:
        return _refused_by_policy(stage, engine, allowed_write_paths=[link])
    finally:
        os.unlink(link)


def hard_linked_grant(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Write through a hard link of a hidden file that lies in the workspace."""
    link = stage.path("work/planted")
    os.link(stage.path("hidden/secret"), link)
    try:
        return _refused_by_policy(stage, engine)
    finally:
        os.unlink(link)
        stage.forgive()


def missing_denial(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Deny a path that does not exist, which the target could then create."""
    hooks = stage.path("work/.git/hooks")
    verdict = _refused_by_policy(stage, engine, denied_paths=[hooks])
    return through("created") if os.path.lexists(stage.path("work/.git")) else verdict


def relabelled_workspace(stage: Stage, engine: BaseSandboxExecutor) -> Verdict:
    """Make the workspace itself a link, which the host would follow afterwards."""
    body = """
def attack():
    os.rename(a["work"], a["work"] + "-moved")
    os.symlink(a["hidden"], a["work"])
    return "the workspace is a link now"
"""
    return Inside(body=body)(stage, engine)


ROWS: tuple[Attack, ...] = (
    row(
        "07",
        "read through a link in the workspace",
        "NS LL SB",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    os.symlink(a["secret"], a["work"] + "/link")
    return read(a["work"] + "/link")
"""
        ),
    ),
    row(
        "07b",
        "write through a link in the workspace",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    os.symlink(a["secret"], a["work"] + "/link")
    write(a["work"] + "/link")
"""
        ),
    ),
    row(
        "08", "a granted path that is a link", "PRE", (), linked_grant, unconfined=False
    ),
    row(
        "08b",
        "make the workspace a link",
        "NS LL SB",
        (Must.FS_WRITE,),
        relabelled_workspace,
        unconfined=False,
    ),
    row(
        "09",
        "hard link of a hidden file",
        "NS LL SB",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    os.link(a["secret"], a["work"] + "/hard")
    return read(a["work"] + "/hard")
"""
        ),
    ),
    row(
        "09b",
        "write a read-only file by a hard link",
        "NS LL SB",
        (Must.FS_WRITE,),
        Inside(
            body="""
def attack():
    os.link(a["shown"] + "/file", a["work"] + "/hard")
    write(a["work"] + "/hard")
"""
        ),
    ),
    row(
        "10",
        "a hard link planted before the run",
        "PRE",
        (),
        hard_linked_grant,
        unconfined=False,
    ),
    row(
        "12",
        "rename the parent of a denied path",
        "NS pin SB",
        (Must.DENY_IN_ALLOW,),
        Inside(
            denied=True,
            body="""
def attack():
    os.rename(a["work"] + "/deep", a["work"] + "/moved")
    try:
        return read(a["work"] + "/moved/denied/secret")
    finally:
        os.rename(a["work"] + "/moved", a["work"] + "/deep")
""",
        ),
    ),
    row(
        "12b",
        "read a denied path inside an allowed one",
        "NS SB",
        (Must.DENY_IN_ALLOW,),
        Inside(
            denied=True,
            body="""
def attack():
    return read(a["denied"])
""",
        ),
    ),
    row(
        "12c",
        "hard link out of a denied path",
        "NS SB",
        (Must.DENY_IN_ALLOW,),
        Inside(
            denied=True,
            body="""
def attack():
    os.link(a["denied"], a["work"] + "/hard")
    return read(a["work"] + "/hard")
""",
        ),
    ),
    row(
        "14",
        "create a denied path that does not exist",
        "PRE",
        (),
        missing_denial,
        unconfined=False,
    ),
    row(
        "16",
        "spell a path through /proc/self and /dev/fd",
        "NS LL",
        (Must.FS_READ,),
        Inside(
            body="""
def attack():
    for spelling in (
        "/proc/self/root" + a["secret"],
        "/proc/thread-self/root" + a["secret"],
        "/proc/self/cwd/../../../../../../.." + a["secret"],
        "/proc/1/root" + a["secret"],
        "/dev/fd/../root" + a["secret"],
    ):
        try:
            return read(spelling)
        except OSError:
            pass
"""
        ),
    ),
    row(
        "30",
        "swap a granted path between check and use",
        "NS pin",
        (Must.FS_READ,),
        swapped_path,
        unconfined=False,
    ),
)
