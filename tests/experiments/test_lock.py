"""A lock's digest covers study, tree, interpreter, packages and SDK; drift is named."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import ArtifactError, Study, StudyError, StudyLock, lock_study
from lazycore.experiments._canonical import canonical
from lazycore.experiments._environment import difference, pin_environment
from lazycore.experiments._interpreter import pin_closure
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import HostPins

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]


def test_the_same_study_gives_the_same_digest_from_another_folder(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    study = write_study()
    lock = make_lock(study)
    shutil.copytree(study.parent, tmp_path / "elsewhere")
    assert make_lock(tmp_path / "elsewhere").digest == lock.digest
    assert str(tmp_path) not in lock.data.decode()


def test_a_lock_read_back_is_the_same(write_study: Write, make_lock: Make) -> None:
    lock = make_lock(write_study())
    again = StudyLock.from_bytes(lock.data)
    assert again.digest == lock.digest == hashlib.sha256(lock.data).hexdigest()
    assert again.study.document() == lock.study.document()
    assert again.drift(lock) == ()


def edit_units(study: Path) -> None:
    study.write_text(study.read_text().replace("'u2'", "'u9'"))


def edit_worker(study: Path) -> None:
    with study.with_name("worker.py").open("a") as file:
        file.write("# harmless?\n")


def add_module(study: Path) -> None:
    study.with_name("json.py").write_text("")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (edit_units, ["tree-drift: study.toml changed", "study-drift: benchmarks"]),
        (edit_worker, ["tree-drift: worker.py changed"]),
        (add_module, ["tree-drift: json.py added"]),
    ],
)
def test_drift_of_the_study_is_named(
    write_study: Write,
    make_lock: Make,
    edit: Callable[[Path], None],
    expected: list[str],
) -> None:
    study = write_study()
    lock = make_lock(study)
    edit(study)
    blockers = lock.drift(make_lock(study))
    assert [f"{b.code}: {b.message}" for b in blockers] == expected
    assert all(b.fix for b in blockers)


@pytest.mark.parametrize(
    ("field", "code", "what"),
    [
        ("interpreter", "interpreter-drift", "closure"),
        ("environment", "environment-drift", "has edited files"),
        ("sdk", "sdk-drift", "worker SDK"),
    ],
)
def test_drift_of_the_host_is_named(
    write_study: Write, pins: HostPins, field: str, code: str, what: str
) -> None:
    study = Study.load(write_study())
    changed = parse(canonical(getattr(pins, field)))
    if field == "interpreter":
        changed["closure"][0][1] = "0" * 64
    elif field == "environment":
        changed["distributions"]["pytest"]["sha256"] = "0" * 64
    else:
        changed["_worker.py"] = "0" * 64
    other = dataclasses.replace(pins, **{field: changed})
    before, after = lock_study(study, pins=pins), lock_study(study, pins=other)
    (blocker,) = before.drift(after)
    assert blocker.code == code
    assert what in blocker.message


def test_an_entrypoint_that_is_missing_or_a_link_is_refused(
    write_study: Write, make_lock: Make
) -> None:
    study = write_study()
    worker = study.with_name("worker.py")
    worker.rename(study.with_name("real.py"))
    with pytest.raises(StudyError, match=r"arms\.no_op\.entrypoint"):
        make_lock(study)
    worker.symlink_to("real.py")
    with pytest.raises(StudyError, match="no regular file of the tree"):
        make_lock(study)


@pytest.mark.parametrize(
    "edit",
    [
        lambda data: data.replace(b'"seed"', b'"sead"') + b"\n",
        lambda data: data.replace(b'"schema":1', b'"schema":2'),
        lambda data: data.replace(b'"sample"', b'"simple"', 1),
        lambda data: data[:-1],
        lambda _data: b"{}",
        lambda _data: b"[]",
    ],
    ids=["newline", "schema", "study", "cut", "empty", "array"],
)
def test_a_lock_that_was_tampered_with_is_refused(
    write_study: Write, make_lock: Make, edit: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(ArtifactError):
        StudyLock.from_bytes(edit(make_lock(write_study()).data))


def fake_site(folder: Path) -> Path:
    """Lay out one installed distribution as pip does."""
    (folder / "pkg").mkdir(parents=True)
    source = b"VALUE = 1\n"
    (folder / "pkg" / "__init__.py").write_bytes(source)
    info = folder / "pkg-1.0.dist-info"
    info.mkdir()
    metadata = b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n"
    (info / "METADATA").write_bytes(metadata)
    rows = []
    for name, data in (
        ("pkg/__init__.py", source),
        ("pkg-1.0.dist-info/METADATA", metadata),
    ):
        value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
        rows.append(f"{name},sha256={value.decode()},{len(data)}")
    (info / "RECORD").write_text("\n".join([*rows, "pkg-1.0.dist-info/RECORD,,"]))
    return folder


def test_an_edited_dependency_is_found_though_its_record_is_not(tmp_path: Path) -> None:
    site = fake_site(tmp_path / "site")
    before = pin_environment((site,))
    assert before["distributions"]["pkg"]["altered"] is False
    (site / "pkg" / "__init__.py").write_text("VALUE = 99\n")
    after = pin_environment((site,))
    assert after["distributions"]["pkg"]["altered"] is True
    assert difference(before, after) == ["pkg 1.0 has edited files"]


def test_a_module_dropped_into_the_environment_is_found(tmp_path: Path) -> None:
    site = fake_site(tmp_path / "site")
    before = pin_environment((site,))
    (site / "sitecustomize.py").write_text("print('hi')")
    dropped = pin_environment((site,))
    (site / "sitecustomize.py").write_text("print('ho')")
    (site / "other.py").write_text("print('hi')")
    named = ["files that no distribution owns changed"]
    assert difference(before, dropped) == named
    (site / "other.py").unlink()
    assert difference(dropped, pin_environment((site,))) == named


def test_a_linked_folder_that_is_turned_elsewhere_is_found(tmp_path: Path) -> None:
    site = fake_site(tmp_path / "site")
    for name in ("one", "two"):
        (site / name).mkdir()
    (site / "linked").symlink_to("one")
    before = pin_environment((site,))
    (site / "linked").unlink()
    (site / "linked").symlink_to("two")
    named = ["files that no distribution owns changed"]
    assert difference(before, pin_environment((site,))) == named


def test_bytecode_caches_are_no_drift(tmp_path: Path) -> None:
    site = fake_site(tmp_path / "site")
    before = pin_environment((site,))
    (site / "pkg" / "__pycache__").mkdir()
    (site / "pkg" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert pin_environment((site,)) == before


@pytest.mark.skipif(sys.platform != "linux", reason="the link closure needs Linux")
def test_the_interpreters_libraries_are_pinned(pins: HostPins) -> None:
    names = [name for name, _ in pins.interpreter["closure"]]
    assert any(name.startswith("libc.") for name in names)
    assert pins.interpreter["executable_sha256"] in {
        value for _, value in pins.interpreter["closure"]
    }


@pytest.mark.skipif(sys.platform != "linux", reason="the link closure needs Linux")
def test_an_edited_library_of_the_interpreter_changes_the_pin(tmp_path: Path) -> None:
    maps = Path("/proc/self/maps").read_text().split()
    # Debian's interpreter holds libpython itself; then its libm stands in.
    shared = [
        word for name in ("/libpython", "/libm.") for word in maps if name in word
    ]
    binary = Path(sys.executable).resolve()
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    shutil.copy(binary, prefix / "bin" / binary.name)
    library = prefix / "lib" / Path(shared[0]).name
    shutil.copy(shared[0], library)
    wrapper = prefix / "bin" / "python"
    wrapper.write_text(
        f"#!/bin/sh\nLD_LIBRARY_PATH={library.parent} PYTHONHOME={sys.base_prefix} "
        f'exec {prefix}/bin/{binary.name} "$@"\n'
    )
    wrapper.chmod(0o755)
    before = pin_closure(str(wrapper))
    with library.open("ab") as file:
        file.write(b"\0")
    after = pin_closure(str(wrapper))
    changed = [name for (name, value) in after if [name, value] not in before]
    assert changed == [library.name]
