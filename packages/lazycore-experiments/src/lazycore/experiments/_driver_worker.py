"""One arm's worker of the driver: attest, run from a snapshot, attest, receipt."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import canonical, digest, sha256_hex
from lazycore.experiments._checkout import Checkout, read_checkout
from lazycore.experiments._classify import classify
from lazycore.experiments._driver_config import CANDIDATE_CHECKOUT_ENV, asset_names
from lazycore.experiments._environment import package_folders
from lazycore.experiments._errors import (
    ArtifactError,
    ProtocolError,
    ValidationError,
    WorkerError,
)
from lazycore.experiments._failures import FailureClass
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._launch import FIXED_ENVIRONMENT, LAUNCHER, sdk_root
from lazycore.experiments._protocol import read_response
from lazycore.experiments._secrets import Redactor, require_secret_free
from lazycore.experiments._snapshot import Snapshot, take_snapshot
from lazycore.experiments._worker import WORKER_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._bindings import BindingReceipt
    from lazycore.experiments._driver_config import DriverConfig
    from lazycore.experiments._manifest import DiscoveryCell, DiscoveryManifest
    from lazycore.sandbox import BaseSandboxExecutor, SandboxPolicy

__all__ = ["DriverWorker"]

_HOST_KEYS = frozenset({"binding_receipt", "host_receipt", "identity", "receipt"})


class DriverWorker:
    """A pinned worker of one arm.

    Args:
        arm: Its arm.
        config: The driver's configuration.
        environment: Where names get their values.
        supervisor: The sandbox executor.
        home: Where its snapshot goes.
    """

    def __init__(
        self,
        arm: str,
        config: DriverConfig,
        environment: Mapping[str, str],
        supervisor: BaseSandboxExecutor,
        home: Path,
    ) -> None:
        self._arm = arm
        self._config = config
        self._pins = config.workers[arm]
        self._environment = environment
        self._supervisor = supervisor
        self._home = home
        self._state: tuple[Checkout, Checkout] | None = None
        self.attest()
        _, adapter = self._checkouts()
        self._snapshot: Snapshot = take_snapshot(
            adapter.root, (), home / "snapshot", adapter.tree.sha256
        )

    def attest(self) -> None:
        """Read checkouts, executable and entrypoint again and compare with the pins.

        Raises:
            ArtifactError: Something is absent or differs; says what.
        """
        pins = self._pins
        found = []
        for name, revision, tree in (
            (pins.method_checkout_env, pins.method_revision, pins.method_tree),
            (pins.adapter_checkout_env, pins.adapter_revision, pins.adapter_tree),
        ):
            path = self._environment.get(name)
            if not path:
                raise ArtifactError(f"{name} is not set")
            found.append(read_checkout(Path(path), revision=revision, tree=tree))
        if hash_file(pins.executable.resolve()) != pins.executable_sha256:
            raise ArtifactError(f"arm {self._arm}: executable is not the pinned one")
        entry = {file.path: file for file in found[1].tree.files}.get(pins.entrypoint)
        if entry is None or entry.mode == "120000":
            raise ArtifactError(
                f"arm {self._arm}: entrypoint is no file of its checkout"
            )
        if entry.sha256 != pins.entrypoint_sha256:
            raise ArtifactError(f"arm {self._arm}: entrypoint is not the pinned one")
        self._state = (found[0], found[1])

    def identity(self) -> dict[str, Any]:
        """Return checkouts and command as digests."""
        method, adapter = self._checkouts()
        pins = self._pins
        return {
            "method": {"variable": pins.method_checkout_env, **method.identity()},
            "adapter": {"variable": pins.adapter_checkout_env, **adapter.identity()},
            "command": {
                "executable_path_sha256": sha256_hex(str(pins.executable).encode()),
                "executable_sha256": pins.executable_sha256,
                "entrypoint": pins.entrypoint,
                "entrypoint_sha256": pins.entrypoint_sha256,
                "arguments_sha256": digest(pins.arguments),
                "launcher_sha256": sha256_hex(LAUNCHER.encode()),
            },
        }

    def missing_variables(self, assets: tuple[str, ...]) -> list[str]:
        """Return the sorted names that are unset or empty."""
        names = {*self._pins.pass_environment, *assets, CANDIDATE_CHECKOUT_ENV}
        return sorted(name for name in names if not self._environment.get(name))

    def require_backend(self) -> None:
        """Raise unless the sandbox holds this worker's policy."""
        from lazycore.sandbox import get_default_executor

        get_default_executor(self._policy()).close()

    def execute(
        self,
        manifest: DiscoveryManifest,
        cell: DiscoveryCell,
        bindings: BindingReceipt,
        redactor: Redactor,
    ) -> dict[str, Any]:
        """Run this arm in a cell; see `MethodProcessExperimentDriver.execute_cell`."""
        self.attest()
        self._snapshot.attest()
        assets = asset_names(manifest)
        request = self._request(manifest, cell, assets)
        data = canonical(request)
        pipes = self._config.pipe_limits
        if len(data) > pipes["max_input_bytes"]:
            raise ValidationError(
                f"the request is over {pipes['max_input_bytes']} bytes"
            )
        result = self._supervisor.run_command(
            self._command(),
            self._policy(assets),
            input=data,
            reply_limit_bytes=pipes["max_stdout_bytes"],
        )
        reply = result.reply or result.stdout
        raw = classify(result, reply)
        resources = {
            "limit_hash": self._config.limit_hash,
            "wall_s": raw.resources.wall_s,
            "cpu_s": raw.resources.cpu_s,
            "peak_rss_bytes": raw.resources.max_rss_bytes,
            "accelerator_s": None,
            "accelerator_peak_bytes": None,
            "timed_out": result.timed_out,
            "oom_killed": raw.failure_class is FailureClass.OOM,
            "exit_reason": raw.resources.exit_reason,
            "exit_code": raw.resources.exit_code,
            "supervisor": result.backend,
            "image": None,
        }
        try:
            self.attest()
            self._snapshot.attest()
        except ArtifactError as error:
            error.receipt = resources
            raise
        if raw.failure_class is not None:
            text = redactor.text(raw.message or "the worker failed")
            failure = WorkerError(raw.failure_class, text)
            failure.receipt = resources
            raise failure
        try:
            answer = self._answer(reply, request["request_hash"], cell, redactor)
        except ProtocolError as error:
            error.receipt = resources
            raise
        receipt = {
            "arm": self._arm,
            "manifest_sha256": manifest.sha256,
            "cell": cell.id,
            "request_hash": request["request_hash"],
            "config_sha256": self._config.sha256,
            "binding_receipt_sha256": bindings.sha256,
            **self.identity(),
            "clean_before": True,
            "clean_after": True,
            "process": {
                "resources": resources,
                "resources_sha256": digest(resources),
                "stdout_sha256": hashlib.sha256(result.stdout).hexdigest(),
                "stderr_sha256": hashlib.sha256(result.stderr).hexdigest(),
            },
        }
        return {**answer, "receipt": {**receipt, "receipt_sha256": digest(receipt)}}

    def _checkouts(self) -> tuple[Checkout, Checkout]:
        assert self._state is not None  # `attest` ran at construction
        return self._state

    def _policy(self, assets: tuple[str, ...] = ()) -> SandboxPolicy:
        """Return what the worker may do; declared assets it may read."""
        from lazycore.sandbox import ResourceLimits, SandboxPolicy

        limits, pipes = self._config.resource_limits, self._config.pipe_limits
        memory, pids = limits["memory_bytes"], limits["pids_limit"]
        home = self._home / "snapshot"
        return SandboxPolicy(
            allowed_read_paths=(
                str(home),
                *map(str, sdk_root()),
                *self._readable(assets),
            ),
            env={
                **FIXED_ENVIRONMENT,
                "LAZYCORE_ARM": self._arm,
                **{
                    name: self._environment[name]
                    for name in self._passed(assets)
                    if name in self._environment
                },
            },
            cwd=str(home),
            timeout_s=limits["wall_timeout_seconds"],
            limits=ResourceLimits(
                memory_bytes=None if memory is None else int(memory),
                processes=512 if pids is None else int(pids),
                output_bytes=min(pipes["max_stdout_bytes"], pipes["max_stderr_bytes"]),
            ),
        )

    def _passed(self, assets: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names the worker sees: declared assets, then its own, once."""
        return tuple(dict.fromkeys((*assets, *self._pins.pass_environment)))

    def _readable(self, assets: tuple[str, ...]) -> list[str]:
        """Return the files and folders that declared assets name."""
        values = [self._environment.get(name, "") for name in assets]
        paths = [Path(value).expanduser() for value in values if value]
        return [str(path.resolve()) for path in paths if path.exists()]

    def _command(self) -> list[str]:
        home = self._home / "snapshot"
        entry = home / self._pins.entrypoint
        paths = [str(entry.parent), str(home), str(home / "src")]
        paths += [str(root) for root in (*sdk_root(), *package_folders())]
        return [
            str(self._pins.executable.resolve()),
            *("-P", "-s", "-S", "-B", "-X", "utf8", "-c", LAUNCHER),
            self._pins.entrypoint_sha256,
            str(entry),
            str(len(paths)),
            *paths,
            *self._pins.arguments,
        ]

    def _request(
        self, manifest: DiscoveryManifest, cell: DiscoveryCell, assets: tuple[str, ...]
    ) -> dict[str, Any]:
        arm = manifest.arm(self._arm)
        target = manifest.target(cell.benchmark, cell.split)
        slot = cell.model_slot
        request: dict[str, Any] = {
            "schema_version": 1,
            "protocol": WORKER_PROTOCOL,
            "lock": manifest.sha256,
            "cell": {
                "id": cell.id,
                "study": cell.study_id,
                "benchmark": cell.benchmark,
                "split": cell.split,
                "units": [cell.unit_id],
                "seed": cell.seed,
                "block": False,
            },
            "benchmark": {
                "external": target.external,
                "source_revision": target.source_revision,
            },
            "method": {
                "id": self._config.method_id,
                "release": self._config.candidate_release_id,
            },
            "arm": {
                "name": arm.arm_id,
                "release": arm.release_id,
                "family": arm.family,
                "profile_kind": arm.profile_kind,
            },
            "model": None if slot is None else {"slot": slot, "checkpoint": slot},
            "metrics": [],
            "parameters": {
                "shared": self._config.shared_request_parameters,
                "benchmark": {},
                "arm": {**arm.parameters, **self._pins.request_parameters},
            },
            "assets": list(self._passed(assets)),
        }
        require_secret_free(request)
        return {**request, "request_hash": digest(request)}

    def _answer(
        self, reply: bytes, request_hash: str, cell: DiscoveryCell, redactor: Redactor
    ) -> dict[str, Any]:
        from lazycore.experiments._plan import Cell

        name = redactor.find(reply)
        if name is not None:
            raise ProtocolError(f"the value of {name} is in the answer")
        planned = Cell(
            id=cell.id,
            index=0,
            benchmark=cell.benchmark,
            model=cell.model_slot,
            seed=cell.seed,
            units=(cell.unit_id,),
            block=False,
            order=cell.arm_ids,
        )
        response = read_response(
            reply,
            request_hash=request_hash,
            cell=planned,
            metrics=None,
            limit=self._config.pipe_limits["max_stdout_bytes"],
        )
        outcome = response.units[cell.unit_id]
        _refuse_host_keys(outcome.output, "output")
        answer: dict[str, Any] = {
            "arm": self._arm,
            "status": "succeeded" if outcome.failure_class is None else "failed",
            "request_hash": request_hash,
            "usage": dict(response.usage),
            "output": outcome.output,
        }
        if outcome.failure_class is None:
            return {**answer, "metrics": dict(outcome.metrics)}
        failure = {"class": outcome.failure_class, "message": outcome.message}
        return {**answer, "failure": failure}


def _refuse_host_keys(value: object, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in _HOST_KEYS:
                raise ProtocolError(f"{where}: {key!r} belongs to the host")
            _refuse_host_keys(item, f"{where}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_host_keys(item, f"{where}[{index}]")
