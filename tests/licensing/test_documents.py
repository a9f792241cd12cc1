"""Bills of materials and conda environments, as the real tools write them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lazycore.licensing import SourceError, read_conda, read_cyclonedx

if TYPE_CHECKING:
    from lazycore.licensing import Package

# bom.cyclonedx-py.json by cyclonedx-bom 7.5, conda-meta by rattler 0.28 from packages
# packed for this test.
INPUTS = Path(__file__).parent / "data" / "inputs"


def licences(packages: list[Package]) -> dict[str, str | None]:
    return {p.name: p.finding.expression if p.finding else "" for p in packages}


def test_a_bill_of_materials_of_the_real_tool_states_its_licences() -> None:
    found = licences(read_cyclonedx(INPUTS / "bom.cyclonedx-py.json"))
    assert found["click"] == "BSD-3-Clause"
    assert found["tomlkit"] == "MIT"
    assert found["pysocks"] is None  # its metadata says "BSD" only
    assert found["text-unidecode"] is None  # two classifiers, one of them vague


def bom(tmp_path: Path, *components: Any) -> Path:
    path = tmp_path / "bom.json"
    path.write_text(
        json.dumps({"bomFormat": "CycloneDX", "components": list(components)})
    )
    return path


def licensed(*entries: Any, **fields: Any) -> dict[str, Any]:
    return {"name": "a", "type": "library", "licenses": list(entries), **fields}


@pytest.mark.parametrize(
    ("component", "expression"),
    [
        (licensed({"expression": "MIT OR GPL-2.0+"}), "MIT OR GPL-2.0-or-later"),
        (
            licensed({"license": {"id": "MIT"}}, {"license": {"id": "ISC"}}),
            "MIT AND ISC",
        ),
        (licensed({"license": {"id": "MIT"}}, {"license": {"name": "Own"}}), None),
        (licensed({"license": {"name": "Apache License, Version 2.0"}}), "Apache-2.0"),
        (
            licensed({"license": {"name": "License :: OSI Approved :: MIT License"}}),
            "MIT",
        ),
        (licensed({"license": {"name": "MIT/GPL-2.0"}}), None),
        (
            licensed({"license": {"name": "MIT/Apache-2.0"}}, purl="pkg:cargo/a@1"),
            "MIT OR Apache-2.0",
        ),
        (licensed("MIT", 4, {}), None),
        ({"name": "a", "licenses": 5}, None),
        ({"name": "a"}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_several_licences_all_hold_and_none_is_invented(
    tmp_path: Path, component: dict[str, Any], expression: str | None
) -> None:
    assert licences(read_cyclonedx(bom(tmp_path, component))) == {"a": expression}


def test_a_concluded_licence_comes_first_and_a_difference_is_said(
    tmp_path: Path,
) -> None:
    component = licensed(
        {"license": {"id": "MIT", "acknowledgement": "declared"}},
        {"license": {"id": "GPL-3.0-only", "acknowledgement": "concluded"}},
    )
    (package,) = read_cyclonedx(bom(tmp_path, component))
    assert package.finding is not None
    assert package.finding.expression == "GPL-3.0-only"
    assert package.finding.conflicts == ("declared is MIT, concluded is GPL-3.0-only",)


def test_components_inside_components_count_and_devices_do_not(tmp_path: Path) -> None:
    deep: dict[str, Any] = {"name": "inner", "licenses": [{"license": {"id": "ISC"}}]}
    for _ in range(300):
        deep = {"name": "outer", "components": [deep]}
    path = bom(tmp_path, deep, {"name": "cpu", "type": "device"}, {"group": "x"}, 7)
    found = read_cyclonedx(path)
    assert len(found) == 301
    assert licences(found)["inner"] == "ISC"
    scoped = read_cyclonedx(bom(tmp_path, {"group": "@scope", "name": "lib"}))
    assert scoped[0].name == "@scope/lib"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("{}", "bomFormat is missing"),
        ('{"bomFormat": "CycloneDX"}', "lists no component"),
        ('{"bomFormat": "CycloneDX", "components": 3}', "lists no component"),
        ("[" * 100_000, "not JSON"),
        ("\xff", "not JSON"),
    ],
)
def test_what_judges_nothing_is_refused(tmp_path: Path, raw: str, words: str) -> None:
    path = tmp_path / "bom.json"
    path.write_text(raw, encoding="latin-1")
    with pytest.raises(SourceError, match=words):
        read_cyclonedx(path)
    with pytest.raises(SourceError, match="export it so"):
        read_cyclonedx(tmp_path / "bom.xml")


def test_a_conda_environment_states_its_licences() -> None:
    assert licences(read_conda(INPUTS)) == {
        "from-conda": "BSD-3-Clause",
        "mkl": "LicenseRef-IntelSimplifiedSoftwareOct2022",
        "oldtool": "GPL-2.0-only",
        "readline": "GPL-3.0-only",
        "zlib": "Zlib",
    }
    assert licences(read_conda(INPUTS / "conda-meta")) == licences(read_conda(INPUTS))


def test_what_pip_put_into_a_conda_environment_counts_too(tmp_path: Path) -> None:
    shutil.copytree(INPUTS / "conda-meta", tmp_path / "conda-meta")
    site = tmp_path / "lib/python3.12/site-packages"
    for name in ("from_conda-2.0", "by_pip-1.0"):
        folder = site / f"{name}.dist-info"
        folder.mkdir(parents=True)
        title, _, version = name.partition("-")
        (folder / "METADATA").write_text(
            f"Name: {title}\nVersion: {version}\nLicense-Expression: AGPL-3.0-only\n"
        )
    found = licences(read_conda(tmp_path))
    assert found["by-pip"] == "AGPL-3.0-only"
    assert found["from-conda"] == "BSD-3-Clause"
    assert len(found) == 6


@pytest.mark.parametrize("raw", ["[]", "{}", '{"name": 4}'])
def test_a_conda_record_that_names_nothing_is_refused(tmp_path: Path, raw: str) -> None:
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "x.json").write_text(raw)
    with pytest.raises(SourceError, match=r"x\.json: no record"):
        read_conda(tmp_path)
