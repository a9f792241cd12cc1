"""The kept driver: one method against NO_OP, cell by cell, for a host of its own.

A host that keeps its own plan and store calls `preflight`, `preflight_units` and
`execute_cell`. Workers are attested, run from read-only snapshots inside the
sandbox, and attested again; each cell comes back with receipts. Only stateless
discovery is offered: a manifest that needs atomic replay outside is a blocker.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._bindings import BindingReceipt, bind
from lazycore.experiments._blockers import Blocker
from lazycore.experiments._canonical import require_sha256, sha256_hex
from lazycore.experiments._driver_config import (
    ARMS,
    CANDIDATE_CHECKOUT_ENV,
    DRIVER_PROTOCOL,
    DriverConfig,
    asset_names,
    load_config,
)
from lazycore.experiments._driver_worker import DriverWorker
from lazycore.experiments._errors import (
    ArtifactError,
    CanonicalError,
    ExperimentError,
    ValidationError,
)
from lazycore.experiments._frozen import freeze, thaw
from lazycore.experiments._secrets import Redactor
from lazycore.experiments._strict_json import parse
from lazycore.experiments._worker import WORKER_PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._manifest import DiscoveryCell, DiscoveryManifest
    from lazycore.sandbox import BaseSandboxExecutor

__all__ = [
    "CONFIG_PATH_ENV",
    "CONFIG_SHA256_ENV",
    "REQUEST_PROTOCOL",
    "UNIT_INVENTORY_ENV",
    "UNIT_INVENTORY_SHA256_ENV",
    "MethodProcessExperimentDriver",
    "factory",
]

CONFIG_PATH_ENV = "LAZYCORE_METHOD_PROCESS_CONFIG"
CONFIG_SHA256_ENV = "LAZYCORE_METHOD_PROCESS_CONFIG_SHA256"
UNIT_INVENTORY_ENV = "LAZYCORE_UNIT_INVENTORY"
UNIT_INVENTORY_SHA256_ENV = "LAZYCORE_UNIT_INVENTORY_SHA256"
REQUEST_PROTOCOL = WORKER_PROTOCOL
_RECEIPT_PROTOCOL = "lazycore-experiments/host-receipt/1"


class MethodProcessExperimentDriver:
    """Runs one method's two arms in attested, sandboxed worker processes.

    Args:
        config: A checked configuration.
        environment: Where names get their values.
        supervisor: A sandbox executor; the strongest of this host when None.

    Examples:
        >>> MethodProcessExperimentDriver.from_config(
        ...     "driver.json", expected_sha256="nonsense"
        ... )
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.CanonicalError: expected_sha256: want 64 ...
    """

    def __init__(
        self,
        config: DriverConfig,
        *,
        environment: Mapping[str, str],
        supervisor: BaseSandboxExecutor,
    ) -> None:
        self._config = config
        self._environment = dict(environment)
        self._supervisor = supervisor
        self._home = tempfile.TemporaryDirectory(prefix="lazycore-driver-")
        place = Path(self._home.name).resolve()
        try:
            self._workers = {
                arm: DriverWorker(
                    arm, config, self._environment, supervisor, place / arm
                )
                for arm in ARMS
            }
        except BaseException:
            self._home.cleanup()
            raise
        names = {name for w in config.workers.values() for name in w.pass_environment}
        self._redactor = Redactor(
            {name: self._environment.get(name, "") for name in names}
        )
        self._fingerprint = freeze(self._make_fingerprint())
        self._ready: tuple[str, BindingReceipt, frozenset[str]] | None = None

    @classmethod
    def from_config(
        cls,
        path: str | Path,
        *,
        expected_sha256: str,
        environment: Mapping[str, str] | None = None,
        supervisor: BaseSandboxExecutor | None = None,
    ) -> MethodProcessExperimentDriver:
        """Load a pinned configuration and attest its workers.

        Args:
            path: The configuration, JSON.
            expected_sha256: Digest of its bytes.
            environment: Where names get their values; `os.environ` when None.
            supervisor: A sandbox executor; the strongest of this host when None.

        Raises:
            ValidationError: The digest is malformed or a field is wrong.
            ArtifactError: The file, a checkout, executable or entrypoint is absent
                or is not what the configuration pins.
            TypeError: The supervisor is no sandbox executor.
        """
        from lazycore.sandbox import BaseSandboxExecutor, get_default_executor

        if supervisor is not None and not isinstance(supervisor, BaseSandboxExecutor):
            raise TypeError(f"supervisor is a {type(supervisor).__name__}")
        config = load_config(path, expected_sha256)
        chosen = supervisor or get_default_executor()
        try:
            return cls(
                config,
                environment=os.environ if environment is None else environment,
                supervisor=chosen,
            )
        except BaseException:
            if supervisor is None:
                chosen.close()
            raise

    def close(self) -> None:
        """Remove the snapshots and close the sandbox."""
        self._supervisor.close()
        self._home.cleanup()

    def fingerprint(self) -> Mapping[str, Any]:
        """Return what this driver is: computed once; a change forbids resuming."""
        found: Mapping[str, Any] = self._fingerprint
        return found

    def preflight(self, manifest: DiscoveryManifest) -> tuple[Blocker, ...]:
        """Return what stands in the way of a manifest, cheap checks first.

        Args:
            manifest: The manifest.

        Returns:
            Blockers in a fixed order; empty when cells may run. A failing preflight
            forgets an earlier success.
        """
        self._ready = None
        blockers = [*self._declared(manifest), *self._host(manifest)]
        units: frozenset[str] = frozenset()
        try:
            units = self._inventory()
        except ExperimentError as error:
            blockers.append(
                self._blocker("inventory", str(error), "pin a JSON array of unit ids")
            )
        if blockers:
            return tuple(blockers)
        try:
            for worker in self._workers.values():
                worker.attest()
            receipt = bind(
                manifest, self._environment, directories=(CANDIDATE_CHECKOUT_ENV,)
            )
        except ExperimentError as error:
            fix = "restore what was pinned, or pin what is there"
            return (self._blocker("attestation", str(error), fix),)
        self._ready = (manifest.sha256, receipt, units)
        return ()

    def preflight_units(
        self,
        manifest: DiscoveryManifest,
        resolved_units: Mapping[str, tuple[str, ...]],
    ) -> tuple[Blocker, ...]:
        """Return what is wrong with resolved units: keys, doubles, inventory.

        Args:
            manifest: A manifest that passed `preflight`.
            resolved_units: ``benchmark:split`` to unit ids.

        Raises:
            ArtifactError: The manifest did not pass `preflight`.
        """
        _, inventory = self._passed(manifest)
        fix = "resolve the units again from the pinned inventory"
        wanted, found = {t.key for t in manifest.targets}, set(resolved_units)
        if wanted != found:
            text = (
                f"keys missing {sorted(wanted - found)}, extra {sorted(found - wanted)}"
            )
            return (self._blocker("units", text, fix),)
        for key in sorted(resolved_units):
            units = resolved_units[key]
            if len(set(units)) != len(units):
                return (self._blocker("units", f"{key}: a unit is listed twice", fix),)
            inline = set(manifest.target(*key.split(":", 1)).unit_ids)
            if inline and inline != set(units):
                text = f"{key}: not the units that the manifest lists"
                return (self._blocker("units", text, fix),)
        union = {unit for units in resolved_units.values() for unit in units}
        if union != inventory:
            missing, extra = (
                sorted(inventory - union)[:5],
                sorted(union - inventory)[:5],
            )
            text = f"inventory: missing {missing}, extra {extra}"
            return (self._blocker("units", text, fix),)
        return ()

    def execute_cell(
        self, manifest: DiscoveryManifest, cell: DiscoveryCell
    ) -> Mapping[str, Any]:
        """Run both arms of a cell and return its result with receipts.

        Args:
            manifest: A manifest that passed `preflight`.
            cell: One of its cells.

        Returns:
            ``status`` succeeded once both arms completed the protocol, even if a
            method failed; ``payload`` with arms and binding receipt; ``receipts``
            in the order of the arms.

        Raises:
            ArtifactError: No preflight, a foreign unit, or an input drifted.
            ValidationError: The cell belongs to another manifest or other arms.
            WorkerError: A worker did not answer; carries the resource receipt.
            ProtocolError: It answered outside the protocol.
        """
        receipt, inventory = self._passed(manifest)
        if cell.manifest_sha256 != manifest.sha256:
            raise ValidationError("the cell belongs to another manifest")
        if set(cell.arm_ids) != set(ARMS):
            raise ValidationError(f"the cell has arms {sorted(cell.arm_ids)}")
        manifest.target(cell.benchmark, cell.split)
        if cell.unit_id not in inventory:
            raise ArtifactError(f"unit {cell.unit_id[:80]!r} is not in the inventory")
        from lazycore.experiments._plan import arm_order

        arms: dict[str, Any] = {}
        order = arm_order(cell.id, cell.arm_ids)
        for arm in order:
            arms[arm] = self._workers[arm].execute(
                manifest, cell, receipt, self._redactor
            )
        payload = {
            "binding_receipt_sha256": receipt.sha256,
            "receipt_protocol": _RECEIPT_PROTOCOL,
            "order": list(order),
            "arms": {arm: arms[arm] for arm in cell.arm_ids},
        }
        result: Mapping[str, Any] = freeze(
            {
                "cell": cell.id,
                "status": "succeeded",
                "payload": payload,
                "receipts": [arms[arm]["receipt"] for arm in cell.arm_ids],
            }
        )
        return result

    def _make_fingerprint(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "protocol": DRIVER_PROTOCOL,
            "config_sha256": self._config.sha256,
            "method_id": self._config.method_id,
            "candidate_release_id": self._config.candidate_release_id,
            "receipt_protocol": _RECEIPT_PROTOCOL,
            "response_protocol": REQUEST_PROTOCOL,
            "workers": {arm: w.identity() for arm, w in self._workers.items()},
            "resource_limits": thaw(self._config.resource_limits),
            "pipe_limits": thaw(self._config.pipe_limits),
            "supervisor": {"backend": self._supervisor.name},
            "inventory_sha256": self._environment.get(UNIT_INVENTORY_SHA256_ENV),
        }

    def _blocker(self, code: str, text: str, fix: str) -> Blocker:
        return Blocker(code=code, message=self._redactor.text(text), fix=fix)

    def _declared(self, manifest: DiscoveryManifest) -> list[Blocker]:
        """Check what the manifest itself says, in the fixed order."""
        found = []
        fix = "correct the manifest or choose another driver"
        config = self._config
        if manifest.stage != "discovery":
            found.append(("stage", f"stage is {manifest.stage}, want discovery"))
        if manifest.requires_atomic_external_replay is True:
            found.append(("replay", "the method needs atomic external replay"))
        if manifest.method_id != config.method_id:
            found.append(("method", f"method is {manifest.method_id}"))
        if manifest.candidate_release_id != config.candidate_release_id:
            found.append(("release", f"release is {manifest.candidate_release_id}"))
        names = {arm.arm_id for arm in manifest.arms}
        if names != set(ARMS):
            found.append(("arms", f"arms are {sorted(names)}, want {sorted(ARMS)}"))
        candidate = [arm for arm in manifest.arms if arm.arm_id == "candidate"]
        if not candidate or candidate[0].release_id != config.candidate_release_id:
            found.append(("candidate", "no candidate arm carries the release"))
        return [self._blocker(code, text, fix) for code, text in found]

    def _host(self, manifest: DiscoveryManifest) -> list[Blocker]:
        """Check what the host must give: limits, then variables per worker."""
        found = []
        if self._config.resource_limits["cpus"] is not None:
            text = "the sandbox can't limit how many CPUs a worker uses"
            fix = "set resource_limits.cpus to null; a CPU time limit is per study"
            found.append(self._blocker("limits", text, fix))
        from lazycore.sandbox import SandboxError

        for arm, worker in self._workers.items():
            try:
                worker.require_backend()
            except SandboxError as error:
                fix = "see `lazycore-sandbox doctor`"
                found.append(self._blocker("sandbox", str(error), fix))
                break
            missing = worker.missing_variables(asset_names(manifest))
            if missing:
                text = f"arm {arm}: {', '.join(missing)} not set"
                found.append(self._blocker("variable-missing", text, "export them"))
        return found

    def _inventory(self) -> frozenset[str]:
        for name in (UNIT_INVENTORY_ENV, UNIT_INVENTORY_SHA256_ENV):
            if not self._environment.get(name):
                raise ArtifactError(f"{name} is not set")
        pinned = self._environment[UNIT_INVENTORY_SHA256_ENV]
        require_sha256(pinned, UNIT_INVENTORY_SHA256_ENV)
        try:
            data = Path(self._environment[UNIT_INVENTORY_ENV]).read_bytes()
        except OSError:
            data = b""
        if sha256_hex(data) != pinned:
            raise ArtifactError("the unit inventory is absent or not the pinned one")
        try:
            units = parse(data)
        except CanonicalError as error:
            raise ArtifactError(f"the unit inventory: {error}") from error
        if (
            not isinstance(units, list)
            or not units
            or not all(isinstance(unit, str) and unit.strip() for unit in units)
            or len(set(units)) != len(units)
        ):
            raise ArtifactError("the unit inventory is no array of unique unit ids")
        return frozenset(units)

    def _passed(
        self, manifest: DiscoveryManifest
    ) -> tuple[BindingReceipt, frozenset[str]]:
        if self._ready is None or self._ready[0] != manifest.sha256:
            raise ArtifactError("this manifest did not pass preflight")
        return self._ready[1], self._ready[2]


def factory() -> MethodProcessExperimentDriver:
    """Make the driver from two environment variables, for hosts that name it.

    Raises:
        ArtifactError: A variable is not set; names it.

    Examples:
        >>> factory()  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.ArtifactError: ... is not set
    """
    for name in (CONFIG_PATH_ENV, CONFIG_SHA256_ENV):
        if not os.environ.get(name):
            raise ArtifactError(f"{name} is not set")
    return MethodProcessExperimentDriver.from_config(
        os.environ[CONFIG_PATH_ENV], expected_sha256=os.environ[CONFIG_SHA256_ENV]
    )
