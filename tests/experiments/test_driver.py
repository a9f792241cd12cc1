"""The kept driver attests its workers, runs both arms sandboxed, keeps receipts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.experiments import (
    DRIVER_PROTOCOL,
    UNIT_INVENTORY_ENV,
    UNIT_INVENTORY_SHA256_ENV,
    ArtifactError,
    DiscoveryCell,
    DiscoveryManifest,
    MethodProcessExperimentDriver,
    ProtocolError,
    StudyError,
    ValidationError,
    WorkerError,
    factory,
)
from lazycore.experiments._bindings import bind
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._frozen import thaw
from lazycore.experiments._tree import read_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lazycore.sandbox import BaseSandboxExecutor, SandboxResult

pytestmark = pytest.mark.usefixtures("one_sandbox")

HEAD = "c0ffee" + "0" * 34
WORKER = """\
import os
from lazycore.experiments import AlgorithmFailure, Reply, serve

def handler(request):
    if request.unit == "assets":
        names = [name for name in os.environ if not name.startswith("PYTHON")]
        with open(os.environ["LAZYCORE_ASSET_DATA"] + "/table") as file:
            return Reply({"score": 1}, output=[sorted(names), file.read()])
    if request.unit == "crash": raise RuntimeError("boom")
    if request.unit == "gave-up": raise AlgorithmFailure("none")
    if request.unit == "host-key":
        return Reply({"score": 1}, output={"host_receipt": 1})
    if request.unit == "leak": return Reply({"score": 1}, output=os.environ["API_KEY"])
    return {"score": request.parameters["gain"] + request.seed}

if __name__ == "__main__":
    serve(handler)
"""
UNITS = ["assets", "crash", "gave-up", "host-key", "leak", "u0"]
MANIFEST: dict[str, Any] = {
    "schema_version": 1,
    "study_id": "s",
    "stage": "discovery",
    "estimand": "mean paired difference",
    "method_id": "m",
    "candidate_release_id": "m-1",
    "benchmarks": [{"cell_id": "b", "split": "test", "unit_ids": UNITS}],
    "arms": [
        {
            "arm_id": arm,
            "release_id": "m-1" if arm == "candidate" else "none",
            "family": "f",
            "profile_kind": "p",
            "arm_kind": arm,
            "parameters": {"gain": gain},
        }
        for arm, gain in (("no_op", 0), ("candidate", 1))
    ],
    "seeds": [3],
    "driver": "lazycore.experiments:factory",
}


class Host:
    """A checkout, a configuration and the variables that name them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "checkout"
        (self.checkout / ".git").mkdir(parents=True)
        (self.checkout / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (self.checkout / ".git" / "packed-refs").write_text(f"{HEAD} refs/heads/main\n")
        (self.checkout / "worker.py").write_text(WORKER)
        inventory = folder / "units.json"
        inventory.write_text(json.dumps(UNITS))
        self.environment = {
            "LAZYCORE_CANDIDATE_CHECKOUT": str(self.checkout),
            UNIT_INVENTORY_ENV: str(inventory),
            UNIT_INVENTORY_SHA256_ENV: hash_file(inventory),
            "API_KEY": "correct-horse-battery",
        }
        tree = read_tree(self.checkout)
        executable = Path(sys.executable).resolve()
        worker = {
            "method_checkout_env": "LAZYCORE_CANDIDATE_CHECKOUT",
            "adapter_checkout_env": "LAZYCORE_CANDIDATE_CHECKOUT",
            "method_revision": HEAD,
            "method_tree": tree.git_tree,
            "adapter_revision": HEAD,
            "adapter_tree": tree.git_tree,
            "executable": str(executable),
            "executable_sha256": hash_file(executable),
            "entrypoint": "worker.py",
            "entrypoint_sha256": tree.files[0].sha256,
            "arguments": [],
            "pass_environment": ["API_KEY"],
            "request_parameters": {},
        }
        self.config: dict[str, Any] = {
            "schema_version": 1,
            "protocol": DRIVER_PROTOCOL,
            "method_id": "m",
            "candidate_release_id": "m-1",
            "workers": {"no_op": worker, "candidate": dict(worker)},
            "resource_limits": {
                "wall_timeout_seconds": 20,
                "memory_bytes": None,
                "cpus": None,
                "pids_limit": 64,
            },
            "pipe_limits": {
                "max_input_bytes": 65536,
                "max_stdout_bytes": 65536,
                "max_stderr_bytes": 65536,
            },
            "shared_request_parameters": {},
        }

    def write(self, config: object = None) -> tuple[Path, str]:
        path = self.folder / "driver.json"
        path.write_text(json.dumps(self.config if config is None else config))
        return path, hash_file(path)

    def driver(self) -> MethodProcessExperimentDriver:
        path, digest = self.write()
        return MethodProcessExperimentDriver.from_config(
            path, expected_sha256=digest, environment=self.environment
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def driver(host: Host) -> Iterator[MethodProcessExperimentDriver]:
    made = host.driver()
    yield made
    made.close()


@pytest.fixture
def manifest() -> DiscoveryManifest:
    return DiscoveryManifest.from_document(MANIFEST)


def cell_of(manifest: DiscoveryManifest, unit: str) -> DiscoveryCell:
    units = {"b:test": tuple(UNITS)}
    return next(cell for cell in manifest.cells(units) if cell.unit_id == unit)


def test_a_cell_runs_both_arms_and_carries_receipts(
    driver: MethodProcessExperimentDriver, manifest: DiscoveryManifest
) -> None:
    assert driver.preflight(manifest) == ()
    assert driver.preflight_units(manifest, {"b:test": tuple(UNITS)}) == ()
    result = thaw(driver.execute_cell(manifest, cell_of(manifest, "u0")))
    assert result["status"] == "succeeded"
    arms = result["payload"]["arms"]
    assert arms["no_op"]["metrics"] == {"score": 3.0}
    assert arms["candidate"]["metrics"] == {"score": 4.0}
    for receipt in result["receipts"]:
        process = receipt["process"]
        assert process["resources"]["exit_reason"] == "completed"
        assert process["resources"]["accelerator_s"] is None
        assert len(receipt["receipt_sha256"]) == 64
        assert receipt["adapter"]["head"] == HEAD
    assert str(Path.home()) not in json.dumps(result)
    assert sorted(result["payload"]["order"]) == ["candidate", "no_op"]


def test_a_worker_sees_declared_assets_and_names_and_no_more(
    host: Host, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "table").write_text("rows")
    host.environment["LAZYCORE_ASSET_DATA"] = str(tmp_path / "data")
    host.environment["LAZYCORE_ASSET_MODELS"] = str(tmp_path)  # not declared
    host.environment["AWS_SECRET"] = "not passed"
    declared = {"directory_env": ["LAZYCORE_ASSET_DATA"]}
    manifest = DiscoveryManifest.from_document({**MANIFEST, "prerequisites": declared})
    driver = host.driver()
    try:
        assert driver.preflight(manifest) == ()
        result = thaw(driver.execute_cell(manifest, cell_of(manifest, "assets")))
    finally:
        driver.close()
    for arm in ("no_op", "candidate"):
        names, text = result["payload"]["arms"][arm]["output"]
        assert text == "rows"
        assert {"API_KEY", "LAZYCORE_ARM", "LAZYCORE_ASSET_DATA"} <= set(names)
        assert not {"AWS_SECRET", "LAZYCORE_ASSET_MODELS"} & set(names)
    # What the directory holds is bound: other rows are another receipt.
    receipt = result["payload"]["binding_receipt_sha256"]
    (tmp_path / "data" / "table").write_text("other rows")
    assert bind(manifest, host.environment).sha256 != receipt


def test_an_algorithmic_failure_is_a_result(
    driver: MethodProcessExperimentDriver, manifest: DiscoveryManifest
) -> None:
    driver.preflight(manifest)
    result = driver.execute_cell(manifest, cell_of(manifest, "gave-up"))
    assert result["status"] == "succeeded"
    assert result["payload"]["arms"]["candidate"]["status"] == "failed"


@pytest.mark.parametrize(
    ("unit", "kind", "text"),
    [
        ("crash", WorkerError, "RuntimeError: boom"),
        ("host-key", ProtocolError, "'host_receipt' belongs to the host"),
        ("leak", ProtocolError, "the value of API_KEY is in the answer"),
    ],
)
def test_a_fault_raises_with_the_resource_receipt(
    driver: MethodProcessExperimentDriver,
    manifest: DiscoveryManifest,
    unit: str,
    kind: type[Exception],
    text: str,
) -> None:
    driver.preflight(manifest)
    with pytest.raises(kind, match=text) as caught:
        driver.execute_cell(manifest, cell_of(manifest, unit))
    receipt = getattr(caught.value, "receipt", None)
    assert receipt is not None
    assert receipt["wall_s"] > 0
    assert "correct-horse" not in str(caught.value)


def add_ignored(host: Host) -> None:
    (host.checkout / ".gitignore").write_text("helper.py\n")


def edit_worker(host: Host) -> None:
    (host.checkout / "worker.py").write_text(WORKER + "#")


def move_head(host: Host) -> None:
    (host.checkout / ".git" / "HEAD").write_text("d" * 40)


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        (add_ignored, "its files are tree"),
        (edit_worker, "its files"),
        (move_head, "HEAD"),
    ],
)
def test_drift_is_refused_at_load_at_preflight_and_at_the_cell(
    host: Host,
    driver: MethodProcessExperimentDriver,
    manifest: DiscoveryManifest,
    edit: Callable[[Host], None],
    text: str,
) -> None:
    assert driver.preflight(manifest) == ()
    edit(host)
    with pytest.raises(ArtifactError, match=text) as caught:
        driver.execute_cell(manifest, cell_of(manifest, "u0"))
    # Found before the start: no worker ran, so there is nothing to account for.
    assert caught.value.receipt is None
    (blocker,) = driver.preflight(manifest)
    assert blocker.code == "attestation"
    with pytest.raises(ArtifactError, match="did not pass preflight"):
        driver.execute_cell(manifest, cell_of(manifest, "u0"))
    with pytest.raises(ArtifactError, match=text):
        host.driver()


@pytest.mark.parametrize("edit", [add_ignored, edit_worker, move_head])
@pytest.mark.parametrize("unit", ["u0", "crash"])
def test_drift_during_a_run_carries_the_resource_receipt(  # noqa: PLR0917 - fixtures
    host: Host,
    driver: MethodProcessExperimentDriver,
    manifest: DiscoveryManifest,
    session_sandbox: BaseSandboxExecutor,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[Host], None],
    unit: str,
) -> None:
    run = session_sandbox.run_command

    def and_edit(*words: Any, **options: Any) -> SandboxResult:
        result = run(*words, **options)
        edit(host)
        return result

    driver.preflight(manifest)
    monkeypatch.setattr(session_sandbox, "run_command", and_edit)
    with pytest.raises(ArtifactError) as caught:
        driver.execute_cell(manifest, cell_of(manifest, unit))
    assert caught.value.receipt is not None
    assert caught.value.receipt["exit_reason"] in {"completed", "nonzero_exit"}


def test_blockers_come_in_order_and_all_at_once(
    driver: MethodProcessExperimentDriver,
) -> None:
    document = {
        **MANIFEST,
        "stage": "test",
        "requires_atomic_external_replay": True,
        "method_id": "other",
        "candidate_release_id": "other-1",
        "arms": [{**MANIFEST["arms"][0]}, {**MANIFEST["arms"][1], "arm_id": "third"}],
        "prerequisites": {"directory_env": ["LAZYCORE_ASSET_DATA"]},
    }
    found = driver.preflight(DiscoveryManifest.from_document(document))
    assert [blocker.code for blocker in found] == [
        "stage",
        "replay",
        "method",
        "release",
        "arms",
        "candidate",
        "variable-missing",
        "variable-missing",
    ]
    assert all(blocker.fix for blocker in found)


@pytest.mark.parametrize(
    ("units", "text"),
    [
        ({}, "keys missing"),
        ({"b:test": tuple(UNITS), "c:test": ()}, "extra"),
        ({"b:test": ("u0", "u0")}, "b:test: a unit is listed twice"),
        ({"b:test": ("u0",)}, "not the units that the manifest lists"),
        ({"b:test": ()}, "not the units that the manifest lists"),
    ],
)
def test_resolved_units_must_be_the_inventory(
    driver: MethodProcessExperimentDriver,
    manifest: DiscoveryManifest,
    units: dict[str, tuple[str, ...]],
    text: str,
) -> None:
    with pytest.raises(ArtifactError, match="did not pass preflight"):
        driver.preflight_units(manifest, units)
    driver.preflight(manifest)
    (blocker,) = driver.preflight_units(manifest, units)
    assert text in blocker.message


def test_the_union_of_units_must_be_the_inventory(
    driver: MethodProcessExperimentDriver,
) -> None:
    target = {"cell_id": "b", "split": "test", "inventory_env": UNIT_INVENTORY_ENV}
    manifest = DiscoveryManifest.from_document({**MANIFEST, "benchmarks": [target]})
    assert driver.preflight(manifest) == ()
    assert driver.preflight_units(manifest, {"b:test": tuple(UNITS)}) == ()
    (blocker,) = driver.preflight_units(manifest, {"b:test": ("u0", "u9", "u8")})
    assert "missing ['assets', 'crash', 'gave-up', 'host-key', 'leak']" in str(blocker)
    assert "extra ['u8', 'u9']" in str(blocker)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "absent or not the pinned one"),
        (b'["other"]', "absent or not the pinned one"),
        (b"[]", "no array of unique unit ids"),
        (b'["a", "a"]', "no array of unique unit ids"),
        (b'[" "]', "no array of unique unit ids"),
        (b'["a"', "not JSON"),
    ],
    ids=repr,
)
def test_a_wrong_inventory_blocks_after_the_rest(
    host: Host, data: bytes | None, text: str
) -> None:
    path = Path(host.environment[UNIT_INVENTORY_ENV])
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
        if b"other" not in data:
            host.environment[UNIT_INVENTORY_SHA256_ENV] = hash_file(path)
    host.config["resource_limits"]["cpus"] = 1
    driver = host.driver()
    found = driver.preflight(
        DiscoveryManifest.from_document({**MANIFEST, "method_id": "other"})
    )
    driver.close()
    assert [blocker.code for blocker in found] == ["method", "limits", "inventory"]
    assert text in found[-1].message


def test_a_cell_of_another_manifest_arm_or_unit_is_refused(
    driver: MethodProcessExperimentDriver, manifest: DiscoveryManifest
) -> None:
    import dataclasses

    driver.preflight(manifest)
    cell = cell_of(manifest, "u0")
    for changes, kind in (
        ({"manifest_sha256": "0" * 64}, ValidationError),
        ({"arm_ids": ("no_op", "third")}, ValidationError),
        ({"benchmark": "other"}, ValidationError),
        ({"unit_id": "stranger"}, ArtifactError),
    ):
        changed = dataclasses.replace(cell, **changes)
        with pytest.raises(kind):
            driver.execute_cell(manifest, changed)


def change(config: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a deep copy with one field changed, or removed when the value is None."""
    copy: dict[str, Any] = json.loads(json.dumps(config))
    *folders, name = path.split(".")
    place = copy
    for folder in folders:
        place = place[folder]
    if value is None:
        del place[name]
    else:
        place[name] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "kind", "text"),
    [
        ("method_id", None, ValidationError, r"missing \['method_id'\]"),
        ("extra", 1, ValidationError, r"unknown \['extra'\]"),
        ("schema_version", True, ValidationError, "schema_version"),
        ("protocol", "x", ValidationError, "protocol"),
        ("method_id", " ", ValidationError, "method_id"),
        ("workers.third", {}, ValidationError, "unknown"),
        ("workers.no_op.arguments", ["a\0"], ValidationError, "NUL"),
        ("workers.no_op.entrypoint", "../x.py", ValidationError, "entrypoint"),
        ("workers.no_op.method_revision", "abc", ValidationError, "full git object"),
        ("workers.no_op.pass_environment", ["PYTHONPATH"], ValidationError, "passed"),
        ("workers.no_op.method_checkout_env", "X", ValidationError, "CANDIDATE"),
        ("workers.no_op.executable_sha256", "0" * 64, ArtifactError, "executable"),
        ("workers.no_op.entrypoint_sha256", "0" * 64, ArtifactError, "entrypoint"),
        ("workers.no_op.method_tree", "0" * 40, ArtifactError, "its files are tree"),
        ("resource_limits.wall_timeout_seconds", 0, ValidationError, "above 0"),
        ("resource_limits.memory_bytes", True, ValidationError, "an integer"),
        ("resource_limits.pids_limit", 1.5, ValidationError, "an integer"),
        ("pipe_limits.max_input_bytes", 0, ValidationError, "from 1"),
        ("shared_request_parameters.password", "x", ArtifactError, "like a secret"),
        (
            "workers.no_op.request_parameters.note",
            "Bearer abcdefghijklmnopqrst",
            ArtifactError,
            r"\$\.workers\.no_op\.request_parameters\.note: holds what looks",
        ),
    ],
)
def test_a_wrong_configuration_names_the_field(
    host: Host, path: str, value: object, kind: type[Exception], text: str
) -> None:
    file, digest = host.write(change(host.config, path, value))
    with pytest.raises(kind, match=text):
        MethodProcessExperimentDriver.from_config(
            file, expected_sha256=digest, environment=host.environment
        )


def test_the_configuration_is_pinned_by_its_bytes(host: Host) -> None:
    path, digest = host.write()
    for wrong, kind in (("nonsense", ValidationError), ("0" * 64, ArtifactError)):
        with pytest.raises(kind):
            MethodProcessExperimentDriver.from_config(
                path, expected_sha256=wrong, environment=host.environment
            )
    link = host.folder / "link.json"
    link.symlink_to(path)
    with pytest.raises(ArtifactError, match="no regular file"):
        MethodProcessExperimentDriver.from_config(
            link, expected_sha256=digest, environment=host.environment
        )
    with pytest.raises(TypeError, match="supervisor is a str"):
        MethodProcessExperimentDriver.from_config(
            path,
            expected_sha256=digest,
            supervisor="local",  # type: ignore[arg-type]  # the mistake under test
        )


def test_the_fingerprint_is_frozen_and_names_every_pin(
    host: Host, driver: MethodProcessExperimentDriver
) -> None:
    found = driver.fingerprint()
    assert found["config_sha256"] == hash_file(host.folder / "driver.json")
    assert found["inventory_sha256"] == host.environment[UNIT_INVENTORY_SHA256_ENV]
    assert found["workers"]["no_op"]["command"]["entrypoint"] == "worker.py"
    with pytest.raises(TypeError):
        found["method_id"] = "x"  # type: ignore[index]  # the mistake under test
    assert str(host.folder) not in json.dumps(thaw(found))


def test_factory_names_the_missing_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZYCORE_METHOD_PROCESS_CONFIG", raising=False)
    with pytest.raises(
        ArtifactError, match="LAZYCORE_METHOD_PROCESS_CONFIG is not set"
    ):
        factory()
    monkeypatch.setenv("LAZYCORE_METHOD_PROCESS_CONFIG", "x")
    with pytest.raises(ArtifactError, match="CONFIG_SHA256 is not set"):
        factory()


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("stage", "other", "stage"),
        ("seeds", [1, 1], "seeds"),
        ("driver", "module", "module:attribute"),
        ("unknown", 1, "unknown key"),
    ],
)
def test_a_wrong_manifest_names_the_field(path: str, value: object, text: str) -> None:
    with pytest.raises(StudyError, match=text):
        DiscoveryManifest.from_document(change(MANIFEST, path, value))


def test_a_manifest_is_what_it_says() -> None:
    manifest = DiscoveryManifest.from_document(MANIFEST)
    assert manifest.sha256 == DiscoveryManifest.from_document(MANIFEST).sha256
    cells = list(manifest.cells({"b:test": tuple(UNITS)}))
    assert [cell.unit_id for cell in cells] == UNITS
    assert len({cell.id for cell in cells}) == len(UNITS)
    # Shards take turns and keep the ids of the whole plan.
    units = {"b:test": tuple(UNITS)}
    shards = [list(manifest.cells(units, shard=(i, 4))) for i in range(4)]
    assert shards[1] == cells[1::4]
    assert {cell.id for shard in shards for cell in shard} == {c.id for c in cells}
    for wrong in ((1, 1), (-1, 2), (0, 0)):
        with pytest.raises(ValidationError, match="shard"):
            manifest.cells({}, shard=wrong)
