"""How a worker starts: interpreter flags, import path, environment, policy.

The launcher hashes the entrypoint's bytes and executes those very bytes, so there
is no gap between what was checked and what runs. The interpreter is the resolved
binary that the lock pins, without `site`: no .pth file and no user folder adds to
the import path.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lazycore.experiments._environment import package_folders
from lazycore.experiments._interpreter import find_interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._lock import StudyLock
    from lazycore.experiments._study import Arm
    from lazycore.sandbox import SandboxPolicy

__all__ = [
    "FIXED_ENVIRONMENT",
    "LAUNCHER",
    "fresh_command",
    "import_path",
    "sdk_root",
    "worker_policies",
    "worker_policy",
]

LAUNCHER = """\
import sys
expected, entry, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
paths, sys.argv = sys.argv[4 : 4 + count], [entry, *sys.argv[4 + count :]]
try:
    from _sha2 import sha256
except ImportError:
    from _sha256 import sha256
with open(entry, "rb") as file:
    source = file.read()
if sha256(source).hexdigest() != expected:
    sys.exit("the entrypoint is not the locked one")
sys.path[:0] = paths
module = sys.modules["__main__"].__dict__
for name in ("expected", "count", "paths", "sha256", "file", "name"):
    module.pop(name, None)
module["__file__"] = entry
exec(compile(module.pop("source"), module.pop("entry"), "exec"), module)
"""
# One hash seed and one numerical thread: set order and sums do not depend on the
# run or on the host's cores. Parallelism comes from slots.
FIXED_ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONNOUSERSITE": "1",
    "TZ": "UTC",
}


def import_path(snapshot: Path, arm: Arm) -> tuple[str, ...]:
    """Return what a worker imports from, first to last, before the stdlib."""
    entry = snapshot / PurePosixPath(arm.entrypoint).parent
    source = snapshot / "src"
    folders = [entry, snapshot, *([source] if source.is_dir() else []), *sdk_root()]
    folders += package_folders()
    return tuple(dict.fromkeys(str(folder) for folder in folders))


def worker_policy(
    lock: StudyLock,
    snapshot: Path,
    arm: Arm,
    environment: Mapping[str, str],
    *,
    host_environment: Mapping[str, str] | None = None,
    channel: Path | None = None,
    caches: Path | None = None,
) -> SandboxPolicy:
    """Return what an arm's worker may do: read its snapshot, answer, nothing else.

    Args:
        lock: The locked study.
        snapshot: What the worker may read.
        arm: Whose worker it is.
        environment: Where passed variables get their values.
        host_environment: Variables the host adds on its own account.
        channel: A folder with the pipes of a process that answers many requests. It
            has no deadline of its own: the host holds one for each request.
        caches: The folder of the bytecode that it runs.
    """
    from lazycore.sandbox import ResourceLimits, SandboxPolicy

    limits = lock.study.limits
    defaults = ResourceLimits()
    passed = {name: environment[name] for name in arm.environment}
    return SandboxPolicy(
        allowed_read_paths=tuple(
            map(str, (snapshot, *sdk_root(), *([caches] if caches else [])))
        ),
        allowed_write_paths=() if channel is None else (str(channel),),
        env={**FIXED_ENVIRONMENT, **passed, **(host_environment or {})},
        cwd=str(snapshot),
        timeout_s=limits.wall_timeout_s if channel is None else None,
        limits=ResourceLimits(
            memory_bytes=limits.memory_bytes,
            cpu_s=limits.cpu_s,
            processes=limits.processes or defaults.processes,
            output_bytes=limits.output_bytes,
        ),
    )


def worker_policies(
    lock: StudyLock, snapshot: Path, environment: Mapping[str, str]
) -> list[SandboxPolicy]:
    """Return the policy of every arm."""
    return [worker_policy(lock, snapshot, arm, environment) for arm in lock.study.arms]


def fresh_command(lock: StudyLock, snapshot: Path, arm: Arm, caches: Path) -> list[str]:
    """Return the argument list of a fresh worker process.

    A worker in another language is run by its own pinned program; there the
    read-only snapshot alone keeps what runs equal to what was hashed.
    """
    if arm.interpreter:
        program = find_interpreter(arm)
        return [str(program), str(snapshot / arm.entrypoint), *arm.arguments]
    paths = import_path(snapshot, arm)
    return [
        str(Path(sys.executable).resolve()),
        "-P",
        "-s",
        "-S",
        "-B",
        *("-X", "utf8", "-X", f"pycache_prefix={caches}"),
        "-c",
        LAUNCHER,
        lock.entrypoint_sha256(arm.name),
        str(snapshot / arm.entrypoint),
        str(len(paths)),
        *paths,
        *arm.arguments,
    ]


def sdk_root() -> tuple[Path, ...]:
    """Return the folder that holds the worker SDK, unless it is a package folder."""
    root = Path(os.path.realpath(__file__)).parents[2]
    return () if root in package_folders() else (root,)
