"""Ask whether a method helps, compared with doing nothing, and be believed."""

from __future__ import annotations

import importlib

# `typing` would cost every worker a few milliseconds of its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from lazycore.experiments._blockers import Blocker
    from lazycore.experiments._canonical import canonical, digest
    from lazycore.experiments._compare import RunDifference, compare_runs
    from lazycore.experiments._comparison import compare_run
    from lazycore.experiments._driver import (
        CONFIG_PATH_ENV,
        CONFIG_SHA256_ENV,
        REQUEST_PROTOCOL,
        UNIT_INVENTORY_ENV,
        UNIT_INVENTORY_SHA256_ENV,
        MethodProcessExperimentDriver,
        factory,
    )
    from lazycore.experiments._driver_config import DRIVER_PROTOCOL
    from lazycore.experiments._engine import Engine, LocalEngine
    from lazycore.experiments._engine_dask import DaskEngine
    from lazycore.experiments._errors import (
        ArtifactError,
        BlockedError,
        CanonicalError,
        ExperimentError,
        ExternalDependencyError,
        JournalError,
        ProtocolError,
        RunBusyError,
        StudyError,
        ValidationError,
        WorkerError,
    )
    from lazycore.experiments._failures import FailureClass
    from lazycore.experiments._frozen import freeze
    from lazycore.experiments._host_pins import HostPins, pin_host
    from lazycore.experiments._lock import StudyLock, lock_study
    from lazycore.experiments._manifest import DiscoveryCell, DiscoveryManifest
    from lazycore.experiments._paired_result import (
        Comparison,
        PairedResult,
        Sensitivity,
    )
    from lazycore.experiments._plan import Cell, arm_order, plan_cells
    from lazycore.experiments._power import minimum_detectable_effect
    from lazycore.experiments._reader import RunRecord, load_run
    from lazycore.experiments._receipts import Signer, generate_key
    from lazycore.experiments._report import write_report
    from lazycore.experiments._results import FailureRow, ResultRow
    from lazycore.experiments._runner import RunObserver, preflight, run_study
    from lazycore.experiments._scaffold import init_study
    from lazycore.experiments._study import Study
    from lazycore.experiments._verdict import Verdict
    from lazycore.experiments._verify import Verification, verify_run
    from lazycore.experiments._worker import (
        AlgorithmFailure,
        BenchmarkFailure,
        Reply,
        Request,
        serve,
    )

# A worker imports this package once per request: only what it asks for is loaded.
_HOMES = {
    "AlgorithmFailure": "_worker",
    "ArtifactError": "_errors",
    "BenchmarkFailure": "_worker",
    "BlockedError": "_errors",
    "Blocker": "_blockers",
    "CONFIG_PATH_ENV": "_driver",
    "CONFIG_SHA256_ENV": "_driver",
    "CanonicalError": "_errors",
    "Cell": "_plan",
    "Comparison": "_paired_result",
    "DRIVER_PROTOCOL": "_driver_config",
    "DaskEngine": "_engine_dask",
    "DiscoveryCell": "_manifest",
    "DiscoveryManifest": "_manifest",
    "Engine": "_engine",
    "ExperimentError": "_errors",
    "ExternalDependencyError": "_errors",
    "FailureClass": "_failures",
    "FailureRow": "_results",
    "HostPins": "_host_pins",
    "JournalError": "_errors",
    "LocalEngine": "_engine",
    "MethodProcessExperimentDriver": "_driver",
    "PairedResult": "_paired_result",
    "ProtocolError": "_errors",
    "REQUEST_PROTOCOL": "_driver",
    "Reply": "_worker",
    "Request": "_worker",
    "ResultRow": "_results",
    "RunBusyError": "_errors",
    "RunDifference": "_compare",
    "RunObserver": "_runner",
    "RunRecord": "_reader",
    "Sensitivity": "_paired_result",
    "Signer": "_receipts",
    "Study": "_study",
    "StudyError": "_errors",
    "StudyLock": "_lock",
    "UNIT_INVENTORY_ENV": "_driver",
    "UNIT_INVENTORY_SHA256_ENV": "_driver",
    "ValidationError": "_errors",
    "Verdict": "_verdict",
    "Verification": "_verify",
    "WorkerError": "_errors",
    "arm_order": "_plan",
    "canonical": "_canonical",
    "compare_run": "_comparison",
    "compare_runs": "_compare",
    "digest": "_canonical",
    "factory": "_driver",
    "freeze": "_frozen",
    "generate_key": "_receipts",
    "init_study": "_scaffold",
    "load_run": "_reader",
    "lock_study": "_lock",
    "minimum_detectable_effect": "_power",
    "pin_host": "_host_pins",
    "plan_cells": "_plan",
    "preflight": "_runner",
    "run_study": "_runner",
    "serve": "_worker",
    "verify_run": "_verify",
    "write_report": "_report",
}

__all__ = [
    "CONFIG_PATH_ENV",
    "CONFIG_SHA256_ENV",
    "DRIVER_PROTOCOL",
    "REQUEST_PROTOCOL",
    "UNIT_INVENTORY_ENV",
    "UNIT_INVENTORY_SHA256_ENV",
    "AlgorithmFailure",
    "ArtifactError",
    "BenchmarkFailure",
    "BlockedError",
    "Blocker",
    "CanonicalError",
    "Cell",
    "Comparison",
    "DaskEngine",
    "DiscoveryCell",
    "DiscoveryManifest",
    "Engine",
    "ExperimentError",
    "ExternalDependencyError",
    "FailureClass",
    "FailureRow",
    "HostPins",
    "JournalError",
    "LocalEngine",
    "MethodProcessExperimentDriver",
    "PairedResult",
    "ProtocolError",
    "Reply",
    "Request",
    "ResultRow",
    "RunBusyError",
    "RunDifference",
    "RunObserver",
    "RunRecord",
    "Sensitivity",
    "Signer",
    "Study",
    "StudyError",
    "StudyLock",
    "ValidationError",
    "Verdict",
    "Verification",
    "WorkerError",
    "arm_order",
    "canonical",
    "compare_run",
    "compare_runs",
    "digest",
    "factory",
    "freeze",
    "generate_key",
    "init_study",
    "load_run",
    "lock_study",
    "minimum_detectable_effect",
    "pin_host",
    "plan_cells",
    "preflight",
    "run_study",
    "serve",
    "verify_run",
    "write_report",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
