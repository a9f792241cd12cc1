"""Damaged inputs are read or refused by name; nothing else ever comes out."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.licensing import (
    Allowlist,
    AllowlistFormatError,
    LicensingError,
    Policy,
    PolicyError,
    ReaderError,
    SourceError,
    audit,
    read_conda,
    read_cyclonedx,
    read_lock,
    read_model_folder,
    read_snapshot,
)
from lazycore.licensing._markers import Marker

INPUTS = Path(__file__).parents[1] / "data" / "inputs"
LOCKS = sorted(
    path.name
    for path in INPUTS.iterdir()
    if path.suffix in {".lock", ".toml", ".txt", ".json"}
)
# Pieces that a format gives a meaning to, put where they don't belong.
PIECES = st.sampled_from(
    [
        *(b"", b'"', b"[", b"]]", b"{", b"}", b"\n", b"=", b"\x00", b"\xff", b"\\"),
        *(b"[[package]]\n", b"name = 3\n", b'marker = "x"\n', b" ; ", b"null", b"[]"),
        *(b"-r requirements.txt\n", b"1e999", b"groups = [[1]]\n", b"version = {}\n"),
    ]
)


def damage(raw: bytes, place: float, cut: int, piece: bytes) -> bytes:
    start = int(place * len(raw))
    return raw[:start] + piece + raw[start + cut :]


@pytest.mark.parametrize("name", LOCKS)
@given(st.floats(0, 1), st.integers(0, 200), PIECES)
@settings(max_examples=30, deadline=None)
def test_a_damaged_lock_or_document_is_read_or_refused(
    name: str, place: float, cut: int, piece: bytes
) -> None:
    raw = damage((INPUTS / name).read_bytes(), place, cut, piece)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(raw)
        reader = read_cyclonedx if name.endswith(".json") else read_lock
        try:
            packages = reader(path)
        except SourceError as error:
            assert name in str(error)  # noqa: PT017 - either outcome is fine
        else:
            assert all(package.name for package in packages)
            audit(packages)


@given(st.floats(0, 1), st.integers(0, 60), PIECES)
@settings(max_examples=30, deadline=None)
def test_a_damaged_conda_record_is_read_or_refused(
    place: float, cut: int, piece: bytes
) -> None:
    record = INPUTS / "conda-meta" / "mkl-2024.2-0.json"
    with tempfile.TemporaryDirectory() as folder:
        meta = Path(folder) / "conda-meta"
        meta.mkdir()
        (meta / record.name).write_bytes(damage(record.read_bytes(), place, cut, piece))
        try:
            audit(read_conda(folder))
        except SourceError as error:
            assert "mkl" in str(error)  # noqa: PT017 - either outcome is fine


POLICY = b"""schema = 1
default-usage = "distributed"
groups = { dev = "build-time" }
extras = { gpu = "runtime-internal" }
unknown = "deny"
bundled = "review"
[[clarify]]
package = "a"
version = "==1"
expression = "MIT"
[[exception]]
package = "b"
allow = ["GPL-3.0-only"]
usage = ["build-time"]
reason = "r"
owner = "o"
expires = 2027-01-01
[classes]
"LicenseRef-x" = "permissive"
"""
MODELS = b"""schema = 1
[[model]]
id = "org/x"
license = "MIT"
tier = 1
revision = "0123456789abcdef0123456789abcdef01234567"
terms-sha256 = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9"
conditions = ["c"]
base-models = ["org/y"]
files = { "a" = "5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9" }
usages = ["dataset"]
reviewed-on = 2026-01-01
expires = 2027-01-01
"""
SNAPSHOT = b"""schema = 1
[[package]]
name = "a"
version = "1"
expression = "MIT"
source = "license-file"
confidence = "derived"
conflicts = ["c"]
bundled = [["p", "r", "ISC"]]
"""
OWN = {
    "policy": (POLICY, Policy.load, PolicyError),
    "allowlist": (MODELS, Allowlist.load, AllowlistFormatError),
    "snapshot": (SNAPSHOT, read_snapshot, SourceError),
}
VALUES = st.sampled_from(
    [
        b"3",
        b"''",
        b"[]",
        b"[3]",
        b"{}",
        b"true",
        b"2027-01-01T00:00:00",
        b"[[1, 2]]",
        b"nan",
    ]
)


@pytest.mark.parametrize("kind", OWN)
@given(st.floats(0, 1), st.integers(0, 40), PIECES)
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_of_our_own_is_refused_by_line(
    kind: str, place: float, cut: int, piece: bytes
) -> None:
    raw, load, error = OWN[kind]
    _read_or_refuse(damage(raw, place, cut, piece), load, error)


@pytest.mark.parametrize("kind", OWN)
@given(st.integers(0, 20), VALUES)
@settings(max_examples=60, deadline=None)
def test_a_value_of_another_type_is_refused_by_line(
    kind: str, number: int, value: bytes
) -> None:
    raw, load, error = OWN[kind]
    lines = raw.splitlines()
    settable = [n for n, line in enumerate(lines) if b" = " in line]
    place = settable[number % len(settable)]
    lines[place] = lines[place].partition(b" = ")[0] + b" = " + value
    _read_or_refuse(b"\n".join(lines), load, error)


def _read_or_refuse(raw: bytes, load: object, error: type[LicensingError]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.toml"
        path.write_bytes(raw)
        try:
            load(path)  # type: ignore[operator]
        except error as fault:
            assert "own.toml" in str(fault)  # noqa: PT017 - either outcome is fine


@given(st.text(alphabet="()'\"=<>! andorextrasingroup_dependency.0123", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_marker_or_refused(text: str) -> None:
    try:
        marker = Marker.parse(text)
    except SourceError:
        return
    assert marker.may_hold(extras=None, groups=None)


ATOMS = st.builds(
    "{} {} '{}'".format,
    st.sampled_from(["os_name", "sys_platform", "python_version"]),
    st.sampled_from(["==", "!="]),
    st.sampled_from(["posix", "linux", "3.12", "nt"]),
)
MARKERS = st.recursive(
    ATOMS,
    lambda inner: st.builds(
        "{}{}{} {} {}".format,
        st.just("("),
        inner,
        st.just(")"),
        st.sampled_from(["and", "or"]),
        inner,
    ),
    max_leaves=12,
)


@given(MARKERS)
@settings(max_examples=80, deadline=None)
def test_markers_mean_what_packaging_says(text: str) -> None:
    markers = pytest.importorskip("packaging.markers", reason="packaging is absent")
    environment = {
        **markers.default_environment(),
        "os_name": "posix",
        "sys_platform": "linux",
        "python_version": "3.12",
    }
    ours = Marker.parse(text).may_hold(environment=environment)
    assert ours == markers.Marker(text).evaluate(environment)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_bytes_are_no_manifest_of_ollama(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "latest"
        for body in (raw, b'{"layers": [' + raw + b"]}"):
            path.write_bytes(body)
            try:
                read_model_folder(path)
            except ReaderError as error:
                assert "latest" in str(error)  # noqa: PT017 - either outcome is fine
