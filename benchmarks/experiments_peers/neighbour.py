"""Drive agentinputlab's method-versus-no_op driver: its cost, and ways round its lock.

Everything it needs is written here: a git checkout with a worker, a configuration, an
inventory, a manifest and six variables.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

__all__ = ["BYPASSES", "Neighbour"]

METHOD, RELEASE = "plan.plan_and_solve", "plan.plan_and_solve.ps_prompt"
CHECKOUT = "AILAB_CANDIDATE_CHECKOUT"
COUNTS = (
    "model_calls",
    "retrieval_calls",
    "tool_calls",
    "embedding_calls",
    "unpriced_model_calls",
    "input_tokens",
    "output_tokens",
)
NUMBERS = ("cpu_seconds", "accelerator_seconds", "cost_usd", "compute_cost_usd")
WORKER = f"""\
import json, os, sys
request = json.load(sys.stdin)
sys.path.insert(0, os.environ["PWD"])
import helper
usage = dict.fromkeys({COUNTS!r}, 0) | dict.fromkeys({NUMBERS!r}, 0.0)
print(json.dumps({{
    "schema_version": 1,
    "protocol": "agentinputlab.parity-process-response.v1",
    "request_hash": request["request_hash"],
    "status": "succeeded",
    "metrics": {{"score": helper.VALUE}},
    "usage": usage,
    "output": {{}},
    "failure": None,
}}))
"""
HONEST, FORGED = "VALUE = 1.0\n", "VALUE = 99.0\n"


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """One study of the neighbour on disk.

    Attributes:
        python: Interpreter of the environment it is installed in.
        folder: Where the study lies.
        environment: Variables its command needs.
    """

    python: Path
    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def write(
        cls, python: Path, folder: Path, *, units: int, ignored: str = ""
    ) -> Neighbour:
        """Write a study of so many units, two trivial arms each."""
        shutil.rmtree(folder, ignore_errors=True)
        checkout = folder / "checkout"
        checkout.mkdir(parents=True)
        (checkout / "worker.py").write_text(WORKER)
        (checkout / "helper.py").write_text(HONEST)
        if ignored:
            (checkout / ".gitignore").write_text(f"{ignored}\n")
        _git(checkout, "init", "-q")
        _git(checkout, "add", ".")
        _git(checkout, "commit", "-q", "-m", "worker")
        files = {
            "config.json": _config(checkout, python.resolve()),
            "units.json": [f"u{i:05}" for i in range(units)],
            "manifest.json": _manifest(),
        }
        for name, document in files.items():
            (folder / name).write_text(json.dumps(document))
        config, inventory = folder / "config.json", folder / "units.json"
        environment = {
            "AILAB_METHOD_PROCESS_CONFIG": str(config),
            "AILAB_METHOD_PROCESS_CONFIG_SHA256": _sha256(config),
            "AILAB_METHOD_DISCOVERY_UNITS": str(inventory),
            "AILAB_METHOD_DISCOVERY_UNITS_SHA256": _sha256(inventory),
            CHECKOUT: str(checkout),
        }
        return cls(python=python, folder=folder, environment=environment)

    def run(self) -> tuple[float, list[float]]:
        """Run the study; return its seconds and the scores, none where it refused."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        command = self.python.with_name("agentinputlab-experiments")
        words = ["run", str(self.folder / "manifest.json"), "--execute"]
        began = time.monotonic()
        done = subprocess.run(
            [str(command), *words, "--output-root", str(out)],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - began
        if done.returncode:
            return took, []
        scores = [
            float(arm["metrics"]["score"])
            for file in out.rglob("results/*.json")
            for arm in json.loads(file.read_text())["result"]["payload"]["arms"]
        ]
        return took, scores


def _config(checkout: Path, python: Path) -> dict[str, Any]:
    revision = _git(checkout, "rev-parse", "HEAD")
    tree = _git(checkout, "rev-parse", "HEAD^{tree}")
    worker = {
        "checkout_environment": CHECKOUT,
        "expected_checkout_revision": revision,
        "expected_checkout_tree": tree,
        "adapter_checkout_environment": CHECKOUT,
        "expected_adapter_checkout_revision": revision,
        "expected_adapter_checkout_tree": tree,
        "executable_path": str(python),
        "executable_sha256": _sha256(python),
        "entrypoint": "worker.py",
        "entrypoint_sha256": _sha256(checkout / "worker.py"),
        "arguments": [],
        "pass_environment": [],
        "request_parameters": {},
    }
    limits = {"memory_bytes": None, "cpus": None, "pids_limit": None}
    pipes = ("max_input_bytes", "max_stdout_bytes", "max_stderr_bytes")
    return {
        "schema_version": 1,
        "protocol": "agentinputlab.method-process-driver.v1",
        "method_id": METHOD,
        "candidate_release_id": RELEASE,
        "workers": {"no_op": worker, "candidate": worker},
        "resource_limits": {"wall_timeout_seconds": 60, **limits},
        "pipe_limits": dict.fromkeys(pipes, 2**20),
        "shared_request_parameters": {},
    }


def _manifest() -> dict[str, Any]:
    def arm(name: str, release: str, family: str) -> dict[str, str]:
        return {
            "arm_id": name,
            "release_id": release,
            "family": family,
            "profile_kind": "controlled_adapter",
        }

    return {
        "schema_version": 1,
        "study_id": "bench",
        "stage": "discovery",
        "estimand_profile_kind": "controlled_adapter",
        "benchmarks": [
            {
                "cell_id": "toy",
                "split": "test",
                "unit_inventory_env": "AILAB_METHOD_DISCOVERY_UNITS",
                "unit_inventory_sha256_env": "AILAB_METHOD_DISCOVERY_UNITS_SHA256",
                "external": True,
                "source_revision": "r1",
            }
        ],
        "arms": [
            arm("no_op", "baseline.no_op", "no_op"),
            arm("candidate", RELEASE, "decompose"),
        ],
        "seeds": [0],
        "driver_entrypoint": "agentinputlab.experiments.drivers.method_process:factory",
        "prerequisites": [
            {"kind": "directory_env", "name": CHECKOUT, "description": "checkout"}
        ],
        "metadata": {"method_id": METHOD, "candidate_release_id": RELEASE},
    }


def _forge(study: Neighbour, flag: str = "") -> bool:
    """Change a module after it was pinned; return whether the forged score counts."""
    checkout = study.folder / "checkout"
    if flag:
        _git(checkout, "update-index", flag, "helper.py")
    (checkout / "helper.py").write_text(FORGED)
    return 99.0 in study.run()[1]


def _ignored(python: Path, folder: Path) -> bool:
    return _forge(Neighbour.write(python, folder, units=1, ignored="helper.py"))


def _flagged(flag: str) -> Callable[[Path, Path], bool]:
    return lambda python, folder: _forge(Neighbour.write(python, folder, units=1), flag)


def _hook(python: Path, folder: Path) -> bool:
    study = Neighbour.write(python, folder, units=1)
    hook, ran = folder / "hook.sh", folder / "ran"
    hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    hook.chmod(0o755)
    _git(folder / "checkout", "config", "core.fsmonitor", str(hook))
    study.run()
    return ran.exists()


BYPASSES: dict[str, Callable[[Path, Path], bool]] = {
    "a tracked module edited": _flagged(""),
    "a git-ignored module edited": _ignored,
    "the same under --assume-unchanged": _flagged("--assume-unchanged"),
    "the same under --skip-worktree": _flagged("--skip-worktree"),
    "core.fsmonitor of the checkout runs on the host": _hook,
}
