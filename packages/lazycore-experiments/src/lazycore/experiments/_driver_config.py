"""The driver's configuration: a JSON file pinned by SHA-256, with strict fields."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import digest, require_sha256, sha256_hex
from lazycore.experiments._errors import ArtifactError, CanonicalError, ValidationError
from lazycore.experiments._frozen import freeze
from lazycore.experiments._secrets import require_secret_free
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazycore.experiments._manifest import DiscoveryManifest

__all__ = ["ARMS", "DRIVER_PROTOCOL", "DriverConfig", "WorkerConfig", "load_config"]

DRIVER_PROTOCOL = "lazycore-experiments/method-process-driver/1"
ARMS = ("no_op", "candidate")
CANDIDATE_CHECKOUT_ENV = "LAZYCORE_CANDIDATE_CHECKOUT"
_ROOT_FIELDS = (
    "candidate_release_id",
    "method_id",
    "pipe_limits",
    "protocol",
    "resource_limits",
    "schema_version",
    "shared_request_parameters",
    "workers",
)
_WORKER_FIELDS = (
    "adapter_checkout_env",
    "adapter_revision",
    "adapter_tree",
    "arguments",
    "entrypoint",
    "entrypoint_sha256",
    "executable",
    "executable_sha256",
    "method_checkout_env",
    "method_revision",
    "method_tree",
    "pass_environment",
    "request_parameters",
)
_RESOURCES = ("cpus", "memory_bytes", "pids_limit", "wall_timeout_seconds")
_PIPES = ("max_input_bytes", "max_stderr_bytes", "max_stdout_bytes")
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HOST_VARIABLES = re.compile(r"PYTHON.*|LD_.*|DYLD_.*|LAZYCORE_.*|LC_.*|LANG|PWD|TZ")
# Assets of the host that a manifest may declare; their names travel to the worker.
HOST_ASSETS = frozenset(
    {
        "LAZYCORE_ASSET_CACHE",
        "LAZYCORE_ASSET_DATA",
        "LAZYCORE_ASSET_EMBEDDINGS",
        "LAZYCORE_ASSET_MODELS",
        "LAZYCORE_ASSET_TOKENIZERS",
    }
)


def asset_names(manifest: DiscoveryManifest) -> tuple[str, ...]:
    """Return the host assets that a manifest declares, in their fixed order."""
    declared = {name for names in manifest.prerequisites.values() for name in names}
    return tuple(name for name in sorted(HOST_ASSETS) if name in declared)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """One arm's worker, pinned.

    Attributes:
        method_checkout_env: Variable that names the method's checkout.
        adapter_checkout_env: Variable that names the adapter's checkout.
        method_revision: Commit the method's checkout is at.
        method_tree: Git tree of its files.
        adapter_revision: Commit of the adapter's checkout.
        adapter_tree: Git tree of its files.
        executable: Interpreter.
        executable_sha256: Its digest.
        entrypoint: Worker file, relative to the adapter's checkout.
        entrypoint_sha256: Its digest.
        arguments: Arguments of the worker.
        pass_environment: Names of passed variables.
        request_parameters: Parameters of this arm's requests.
    """

    method_checkout_env: str
    adapter_checkout_env: str
    method_revision: str
    method_tree: str
    adapter_revision: str
    adapter_tree: str
    executable: Path
    executable_sha256: str
    entrypoint: str
    entrypoint_sha256: str
    arguments: tuple[str, ...]
    pass_environment: tuple[str, ...]
    request_parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """A checked configuration.

    Attributes:
        sha256: Digest of the file.
        method_id: The method under test.
        candidate_release_id: Its release.
        workers: Arm to worker.
        resource_limits: Wall time, memory, CPUs, processes; None is unlimited.
        pipe_limits: Ceilings of stdin, stdout and stderr.
        shared_request_parameters: Parameters of every request.
    """

    sha256: str
    method_id: str
    candidate_release_id: str
    workers: Mapping[str, WorkerConfig]
    resource_limits: Mapping[str, float | None]
    pipe_limits: Mapping[str, int]
    shared_request_parameters: Mapping[str, Any]

    @property
    def limit_hash(self) -> str:
        """Digest of the four resource limits."""
        return digest(self.resource_limits)


def load_config(path: str | Path, expected_sha256: str) -> DriverConfig:
    """Read a configuration whose bytes hash to the pinned digest.

    Raises:
        ValidationError: The digest is malformed, or a field is wrong.
        ArtifactError: The file is absent, a link, changed, no JSON, or holds a
            secret.
    """
    require_sha256(expected_sha256, "expected_sha256")
    file = Path(path).expanduser()
    if file.is_symlink() or not file.is_file():
        raise ArtifactError(f"{file}: no regular file")
    data = file.read_bytes()
    if sha256_hex(data) != expected_sha256:
        raise ArtifactError(f"{file}: is not the file that expected_sha256 pins")
    try:
        document = parse(data)
    except CanonicalError as error:
        raise ArtifactError(f"{file}: {error}") from error
    root = _fields(document, _ROOT_FIELDS, "config")
    try:
        require_secret_free(document)
    except ValidationError as error:
        raise ArtifactError(f"{file}: {error}") from error
    if type(root["schema_version"]) is not int or root["schema_version"] != 1:
        raise ValidationError("config: schema_version is not 1")
    if root["protocol"] != DRIVER_PROTOCOL:
        raise ValidationError(f"config: protocol is not {DRIVER_PROTOCOL}")
    workers = _fields(root["workers"], ARMS, "workers")
    return DriverConfig(
        sha256=expected_sha256,
        method_id=_text(root["method_id"], "method_id"),
        candidate_release_id=_text(
            root["candidate_release_id"], "candidate_release_id"
        ),
        workers=freeze_workers(workers),
        resource_limits=_resources(root["resource_limits"]),
        pipe_limits=_pipes(root["pipe_limits"]),
        shared_request_parameters=_parameters(
            root["shared_request_parameters"], "shared_request_parameters"
        ),
    )


def freeze_workers(workers: Mapping[str, Any]) -> Mapping[str, WorkerConfig]:
    """Check the workers of both arms."""
    return {arm: _worker(workers[arm], f"workers.{arm}") for arm in ARMS}


def _fields(value: object, names: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{where}: want an object")
    missing, unknown = sorted(set(names) - set(value)), sorted(set(value) - set(names))
    if missing or unknown:
        raise ValidationError(f"{where}: missing {missing}, unknown {unknown}")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValidationError(f"{where}: want a string that is not blank")
    return value


def _parameters(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError(f"{where}: want an object")
    frozen: Mapping[str, Any] = freeze(value)
    return frozen


def _resources(value: object) -> Mapping[str, float | None]:
    limits = _fields(value, _RESOURCES, "resource_limits")
    for name, limit in limits.items():
        where = f"resource_limits.{name}"
        if limit is None and name != "wall_timeout_seconds":
            continue
        whole = name in {"memory_bytes", "pids_limit"}
        if type(limit) not in ({int} if whole else {int, float}):
            raise ValidationError(
                f"{where}: want {'an integer' if whole else 'a number'}"
            )
        if not math.isfinite(limit) or limit <= 0:
            raise ValidationError(f"{where}: want a finite number above 0")
    return limits


def _pipes(value: object) -> Mapping[str, int]:
    limits = _fields(value, _PIPES, "pipe_limits")
    for name, limit in limits.items():
        if type(limit) is not int or limit < 1:
            raise ValidationError(f"pipe_limits.{name}: want an integer from 1")
    return limits


def _worker(value: object, where: str) -> WorkerConfig:
    fields = _fields(value, _WORKER_FIELDS, where)
    for name in ("method_checkout_env", "adapter_checkout_env"):
        if fields[name] != CANDIDATE_CHECKOUT_ENV:
            raise ValidationError(f"{where}.{name}: want {CANDIDATE_CHECKOUT_ENV}")
    for name in ("method_revision", "method_tree", "adapter_revision", "adapter_tree"):
        if not isinstance(fields[name], str) or not _OBJECT_ID.fullmatch(fields[name]):
            raise ValidationError(f"{where}.{name}: want a full git object id")
    for name in ("executable_sha256", "entrypoint_sha256"):
        require_sha256(fields[name], f"{where}.{name}")
    _check_entrypoint(fields["entrypoint"], f"{where}.entrypoint")
    arguments = _strings(fields["arguments"], f"{where}.arguments")
    if any("\0" in argument for argument in arguments):
        raise ValidationError(f"{where}.arguments: an argument holds NUL")
    names = _strings(fields["pass_environment"], f"{where}.pass_environment")
    _check_names(names, f"{where}.pass_environment")
    return WorkerConfig(
        **{
            **fields,
            "executable": Path(_text(fields["executable"], f"{where}.executable")),
            "arguments": arguments,
            "pass_environment": names,
            "request_parameters": _parameters(
                fields["request_parameters"], f"{where}.request_parameters"
            ),
        }
    )


def _check_entrypoint(value: object, where: str) -> None:
    entrypoint = _text(value, where)
    pure = PurePosixPath(entrypoint)
    if pure.is_absolute() or ".." in pure.parts or pure.as_posix() != entrypoint:
        raise ValidationError(f"{where}: want a normalised relative path")


def _check_names(names: tuple[str, ...], where: str) -> None:
    if len(set(names)) != len(names):
        raise ValidationError(f"{where}: a name is listed twice")
    for name in names:
        controlled = _HOST_VARIABLES.fullmatch(name) and name not in HOST_ASSETS
        if not _VARIABLE.fullmatch(name) or controlled:
            raise ValidationError(f"{where}: {name!r} can't be passed")


def _strings(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValidationError(f"{where}: want an array of strings")
    return tuple(value)
