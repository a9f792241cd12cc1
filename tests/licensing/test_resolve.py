"""The licence of a distribution is read from its files; in doubt the stricter holds."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import Confidence, classify, identify, resolve

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    MakeDist = Callable[..., Path]

COMMONS = (
    '"Commons Clause" License Condition v1.0\n\nThe Software is provided to you by '
    "the Licensor under the License, as defined below, subject to the following "
    "condition. The License does not include the right to Sell the Software.\n\n"
)
BUSL = (
    "License text copyright (c) 2020 MariaDB\n\nParameters\n\nLicensor: Acme\n"
    "Licensed Work: Acme DB 2\nAdditional Use Grant: None\n"
    "Change Date: 2030-01-01\nChange License: Apache License, Version 2.0\n"
)


@pytest.mark.parametrize("version", ["1.0", "1.2", "2.1", "2.3", "2.4", "2.5", "9.9"])
def test_an_expression_is_read_in_every_metadata_version(
    make_dist: MakeDist, version: str
) -> None:
    folder = make_dist(headers="License-Expression: apache-2.0 or mit")
    path = folder / "METADATA"
    path.write_text(path.read_text().replace("2.4", version, 1))
    found = resolve(folder)
    assert found.expression == "Apache-2.0 OR MIT"
    assert found.confidence is Confidence.EXACT


@pytest.mark.parametrize(
    ("headers", "expression"),
    [
        ("License: MIT", "MIT"),
        ("License: Apache 2.0", "Apache-2.0"),
        ("License: Apache License, Version 2.0", "Apache-2.0"),
        ("License: BSD", None),
        ("License: BSD License", None),
        ("License: GPL", None),
        ("License: Apache Software License", None),
        ("License: UNKNOWN", None),
        ("License: GPLv3", "GPL-3.0-only"),
        ("License: GPLv3+", "GPL-3.0-or-later"),
        ("License: MIT or Apache-2.0", "MIT OR Apache-2.0"),
        ("License: MIT, BSD 3-Clause", "MIT AND BSD-3-Clause"),
        ("License: IT", None),
        ("License: mit", "MIT"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT"),
        ("Classifier: License :: OSI Approved", None),
        ("Classifier: License :: OSI Approved :: BSD License", None),
        ("Classifier: License :: Other/Proprietary License", None),
        (
            (
                "Classifier: License :: OSI Approved :: GNU Lesser General Public License"  # noqa: E501 - a classifier is one line
                " v2 or later (LGPLv2+)"
            ),
            "LGPL-2.0-or-later",
        ),
        (
            (
                "Classifier: License :: OSI Approved :: MIT License\n"
                "Classifier: License :: OSI Approved :: ISC License (ISCL)"
            ),
            "MIT AND ISC",
        ),
        (
            (
                "License: GPL-3.0\nClassifier: License :: OSI Approved :: GNU General "
                "Public License v3 or later (GPLv3+)"
            ),
            "GPL-3.0-or-later",
        ),
    ],
)
def test_vague_names_never_become_an_id(
    make_dist: MakeDist, headers: str, expression: str | None
) -> None:
    assert resolve(make_dist(headers=headers)).expression == expression


def test_a_file_settles_what_a_vague_name_leaves_open(
    make_dist: MakeDist, mit_text: str
) -> None:
    found = resolve(
        make_dist(headers="License: see file", files={"licenses/LICENSE": mit_text})
    )
    assert (found.expression, found.source) == ("MIT", "license-file")
    assert found.text_sha256


@pytest.mark.parametrize(
    "change",
    [
        lambda text: " ".join(text.split()),
        lambda text: text.upper(),
        lambda text: text.replace("Somebody", "The Authors of a Long Name, Inc."),
        lambda text: "\n".join(f"# {line}" for line in text.splitlines()),
        lambda text: "Demo is a package.\n\n" + text,
        lambda text: text.replace('"', "\u201c"),
    ],
    ids=["rewrapped", "upper", "owner", "commented", "preamble", "quotes"],
)
def test_copies_of_one_text_are_one_licence(
    make_dist: MakeDist, mit_text: str, change: object
) -> None:
    assert callable(change)
    found = resolve(make_dist(files={"LICENSE": change(mit_text)}))
    assert found.expression == "MIT"


@pytest.mark.parametrize(
    ("added", "reference"),
    [
        (COMMONS, "LicenseRef-Commons-Clause"),
        (
            "This software is for non-commercial use only.\n",
            "LicenseRef-Non-Commercial",
        ),
        (
            "For commercial use please contact the authors.\n",
            "LicenseRef-Non-Commercial",
        ),
        (
            "The software may not be used for military purposes.\n",
            "LicenseRef-Use-Restricted",
        ),
    ],
)
def test_conditions_added_to_a_licence_are_not_swallowed(
    make_dist: MakeDist, mit_text: str, added: str, reference: str
) -> None:
    for headers in ("", "License: MIT", "License-Expression: MIT"):
        name = f"d{len(headers)}"
        folder = make_dist(name, headers, files={"LICENSE": added + mit_text})
        found = resolve(folder)
        assert found.expression is not None
        assert reference in found.expression
        assert classify(reference).name != "PERMISSIVE"


@pytest.mark.parametrize(
    "headers", ["", "License: Apache-2.0", "Classifier: License :: Other/Proprietary"]
)
def test_the_licence_in_force_is_taken_not_the_change_licence(
    make_dist: MakeDist, headers: str
) -> None:
    found = resolve(make_dist(headers=headers, files={"LICENSE": BUSL}))
    assert found.expression == "BUSL-1.1"


def test_a_file_that_contradicts_a_milder_field_decides(
    make_dist: MakeDist, mit_text: str
) -> None:
    mild = make_dist("mild", "License: MIT", files={"LICENSE": BUSL})
    assert resolve(mild).expression == "BUSL-1.1"
    strict = make_dist("strict", "License: GPL-3.0-only", files={"LICENSE": mit_text})
    found = resolve(strict)
    assert found.expression == "GPL-3.0-only"
    assert len(found.conflicts) == 1


def test_classifiers_that_are_stricter_than_a_bare_field_are_kept(
    make_dist: MakeDist,
) -> None:
    found = resolve(
        make_dist(
            headers="License: MIT\nClassifier: License :: OSI Approved :: GNU General "
            "Public License v3 (GPLv3)"
        )
    )
    assert found.expression == "MIT AND GPL-3.0-only"
    assert found.conflicts


def test_several_files_are_combined_by_role(make_dist: MakeDist, mit_text: str) -> None:
    isc = mit_text.replace("Somebody", "Vendor")
    found = resolve(
        make_dist(
            files={
                "licenses/LICENSE": mit_text,
                "licenses/LICENSE.somelib": BUSL,
                "licenses/vendor/x/LICENSE": isc,
            }
        )
    )
    assert found.expression is not None
    assert {item.path for item in found.bundled} >= {"licenses/vendor/x/LICENSE"}


def test_readme_is_a_guess(make_dist: MakeDist) -> None:
    found = resolve(
        make_dist(body="# Demo\n\n## License\n\nMIT License, see LICENSE.\n")
    )
    assert (found.expression, found.confidence) == ("MIT", Confidence.GUESS)


@pytest.mark.parametrize(
    "path",
    [
        "demo.libs/libgfortran-abc.so.5.0.0",
        "demo/.dylibs/libx.dylib",
        "demo/_vendor/other/__main__.py",
        "demo/binaries/ffmpeg-linux-v7",
        "demo/libfoo.so",
    ],
)
def test_works_of_other_origin_are_listed(make_dist: MakeDist, path: str) -> None:
    found = resolve(make_dist(headers="License: MIT", installed={path: ""}))
    assert [item.path for item in found.bundled] != []


def test_own_code_is_not_called_bundled(make_dist: MakeDist) -> None:
    own = {"demo/__init__.py": "", "demo/_core.cpython-311-x86_64-linux-gnu.so": ""}
    assert resolve(make_dist(headers="License: MIT", installed=own)).bundled == ()


def test_nested_distributions_and_boms_name_their_licences(make_dist: MakeDist) -> None:
    bom = (
        '{"components": [{"name": "zlib", "licenses": [{"license": {"id": "Zlib"}}]},'
        ' {"name": "x", "purl": "pkg:cargo/x@1",'
        ' "licenses": [{"expression": "MIT/Apache-2.0"}]}, 3]}'
    )
    nested = "Name: inner\nLicense: LGPLv3\nLicense-Expression: LGPL-3.0-only\n"
    found = resolve(
        make_dist(
            headers="License: MIT",
            installed={
                "demo/_vendor/inner-1.dist-info/METADATA": nested,
                "demo-1.0.dist-info/sboms/a.cdx.json": bom,
            },
        )
    )
    said = {item.expression for item in found.bundled}
    assert said >= {"LGPL-3.0-only", "Zlib", "MIT OR Apache-2.0"}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe\x00",
        b"License\n",
        b": MIT\n",
        b"License: \x00\n\n",
        b"\n\nLicense: MIT",
        b"License-Expression: ((((\n",
        b"Classifier: License :: \n" * 1000,
        b" continued before any header\n",
    ],
    ids=repr,
)
def test_broken_metadata_never_crashes(make_dist: MakeDist, raw: bytes) -> None:
    folder = make_dist()
    (folder / "METADATA").write_bytes(raw)
    assert resolve(folder).expression is None


@pytest.mark.parametrize("bom", ["", "[]", "{", '{"components": 3}', "[" * 100_000])
def test_a_broken_bom_never_crashes(make_dist: MakeDist, bom: str) -> None:
    path = "demo-1.0.dist-info/sboms/a.cdx.json"
    resolve(make_dist(headers="License: MIT", installed={path: bom}))


def test_a_record_that_leaves_the_folder_is_not_followed(make_dist: MakeDist) -> None:
    folder = make_dist()
    (folder / "RECORD").write_text("../../../etc/LICENSE,,\n/etc/LICENSE,,\n")
    assert resolve(folder).expression is None


def test_an_absent_package_is_named() -> None:
    with pytest.raises(PackageNotFoundError):
        resolve("no-such-distribution")


def test_no_trigger_word_hides_a_condition() -> None:
    examples = {
        "LicenseRef-Commons-Clause": "Commons Clause",
        "LicenseRef-Non-Commercial": "for research purposes only",
        "LicenseRef-Use-Restricted": "shall be used for Good, not Evil",
        "LicenseRef-Proprietary": "End-User License Agreement",
    }
    for reference, text in examples.items():
        assert identify(text).conditions == (reference,)
