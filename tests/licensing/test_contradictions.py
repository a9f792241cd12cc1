"""Evidence that disagrees, adds or stands beside: the stricter reading holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lazycore.licensing import (
    DECISIONS,
    LicenseClass,
    Usage,
    Verdict,
    classify,
    identify,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    MakeDist = Callable[..., Path]

GPL = (Path(__file__).parent / "data/texts/GPL-2.0.txt").read_text("utf-8")
LINKING = (
    "In addition to the permissions in the GNU General Public License, the authors "
    "give you unlimited\npermission to link the compiled version of this library into "
    "combinations with other programs.\n\n"
)
SEVERITY = {Verdict.ALLOW: 0, Verdict.REVIEW: 1, Verdict.DENY: 2}
BRANDING = (
    "Notwithstanding any other provision of this License, and as a material condition "
    "of the rights granted herein, licensees are strictly prohibited from altering, "
    "removing, obscuring or replacing any branding of the software in any deployment "
    "with more than fifty users.\n\n"
)


@pytest.mark.parametrize(
    "added",
    [
        BRANDING,
        (
            "The Software may not be sold or offered as a hosted service to third "
            "parties without an agreement with the authors, who decide on each request "
            "alone and owe nobody any reason for what they decide in such a case.\n\n"
        ),
        (
            "Any deployment in production requires a separate written licence from the "
            "authors named above; evaluation for thirty days on one machine by one "
            "person is free of charge and ends without notice after that time.\n\n"
        ),
    ],
    ids=["branding", "no-hosting", "production"],
)
@pytest.mark.parametrize("where", ["inside", "before", "after"])
def test_a_condition_put_into_a_licence_text_is_found(
    make_dist: MakeDist, mit_text: str, added: str, where: str
) -> None:
    at = {
        "before": 0,
        "inside": mit_text.index("The above copyright"),
        "after": len(mit_text),
    }[where]
    text = f"{mit_text[:at]}\n{added}{mit_text[at:]}"
    found = resolve(make_dist(headers="License: MIT", files={"licenses/LICENSE": text}))
    assert found.expression == "MIT AND LicenseRef-Additional-Terms"
    assert any("says beside its licence" in text for text in found.conflicts)


@pytest.mark.parametrize(
    "harmless",
    [
        "Copyright (c) 2011 " + "Some Body and Others, " * 20 + "\n\n",
        (
            "This notice may not be removed or altered from any source distribution of "
            "the software by anybody who passes it on, be it in a changed form or not, "
            "as everybody will understand who has read as far as this line.\n\n"
        ),
        (
            "Thanks go to everybody who helped with words, code and patience over the "
            "years; the list of names is in the file AUTHORS beside this one, and it "
            "is longer than what fits here, so look there for yours.\n\n"
        ),
    ],
    ids=["names", "notice", "thanks"],
)
def test_harmless_text_beside_a_licence_adds_nothing(
    mit_text: str, harmless: str
) -> None:
    assert identify(harmless + mit_text).conditions == ()
    assert identify(mit_text + harmless).conditions == ()


def test_a_second_copy_of_a_licence_adds_nothing(mit_text: str) -> None:
    other = mit_text.replace("2020 Somebody", "1999 Somebody Else")
    assert identify(f"{mit_text}\nOriginal version:\n\n{other}").conditions == ()


@pytest.mark.parametrize("header", ["License: MIT", "License-Expression: MIT"])
def test_a_stricter_text_beside_the_stated_one_is_added(
    make_dist: MakeDist, mit_text: str, header: str
) -> None:
    files = {"licenses/LICENSE": mit_text, "licenses/COPYING": GPL}
    found = resolve(make_dist(headers=header, files=files))
    assert found.expression == "MIT AND GPL-2.0-only"
    assert found.conflicts


def test_a_plain_gpl_beside_an_lgpl_adds_nothing(make_dist: MakeDist) -> None:
    files = {"licenses/COPYING": GPL}
    header = "License-Expression: LGPL-2.1-or-later OR GPL-2.0-only"
    found = resolve(make_dist(headers=header, files=files))
    assert found.expression == "LGPL-2.1-or-later OR GPL-2.0-only"
    assert found.conflicts == ()


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        ("# License\n\nDual-licensed under MIT and GPL.\n", "MIT OR GPL-2.0-only"),
        ("# License\n\nSee the files.\n", "MIT AND GPL-2.0-only"),
    ],
    ids=["choice", "silence"],
)
def test_files_and_classifiers_complete_a_field_that_names_one_of_two(
    make_dist: MakeDist, mit_text: str, body: str, expression: str
) -> None:
    found = resolve(
        make_dist(
            headers="License: MIT\n"
            "Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: License :: OSI Approved :: GNU General Public License (GPL)",
            body=body,
            files={"licenses/LICENSE-MIT": mit_text, "licenses/LICENSE-GPL": GPL},
        )
    )
    assert found.expression == expression


def test_two_parts_in_one_file_are_both_kept_when_classifiers_name_both(
    make_dist: MakeDist, mit_text: str
) -> None:
    text = (
        "The hooks are under the GNU General Public License, either version 2 or (at "
        "your option) any later version. The runtime files that are bundled with a "
        f"program are under the MIT licence.\n\n{GPL}\n\n{mit_text}"
    )
    found = resolve(
        make_dist(
            headers="Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: License :: OSI Approved :: GNU General Public License v2 "
            "(GPLv2)",
            files={"licenses/LICENSE": text},
        )
    )
    assert found.expression == "GPL-2.0-or-later AND MIT"


@pytest.mark.parametrize(
    ("preamble", "expression"),
    [
        ("", "GPL-2.0-only"),
        ("Either version 2 or (at your option) any later version.\n", "or-later"),
        (
            (
                "Note that the only valid version of the GPL is this one (v2, not any "
                "later version).\n"
            ),
            "GPL-2.0-only",
        ),
    ],
    ids=["text-alone", "later", "only-this"],
)
def test_or_later_is_read_before_the_gnu_text_never_in_it(
    make_dist: MakeDist, preamble: str, expression: str
) -> None:
    found = resolve(make_dist(files={"licenses/COPYING": preamble + GPL}))
    assert found.expression is not None
    assert found.expression.endswith(expression)


@pytest.mark.parametrize(
    "headers",
    ["", "License: GPLv2 with linking exception", "License: GPL-2.0-only"],
    ids=["no-field", "named", "plain-field"],
)
def test_an_exception_that_its_own_words_state_is_identified(
    make_dist: MakeDist, headers: str
) -> None:
    files = {"licenses/COPYING": LINKING + GPL}
    found = resolve(make_dist(headers=headers, files=files))
    assert found.expression == "GPL-2.0-only WITH GCC-exception-2.0"


@pytest.mark.parametrize(
    ("field", "expression"),
    [
        ("GPLv2 with the Classpath exception", "WITH Classpath-exception-2.0"),
        ("GPLv2+ with bootloader exception", "or-later WITH Bootloader-exception"),
        ("GPLv2 with linking exception", "GPL-2.0-only"),
        ("GPLv3 with GCC runtime library exception", "GPL-3.0-only"),
        ("AGPLv3 with special exceptions", "AGPL-3.0-only"),
        ("GPLv3 with Classpath exception", "GPL-3.0-only"),
    ],
)
def test_an_exception_that_is_only_named_counts_where_the_name_fixes_it(
    make_dist: MakeDist, field: str, expression: str
) -> None:
    found = resolve(make_dist(headers=f"License: {field}"))
    assert found.expression is not None
    assert found.expression.endswith(expression)
    if "WITH" not in expression:
        assert any("exception" in conflict for conflict in found.conflicts)


def test_an_exception_in_a_file_that_can_not_be_told_is_reported(
    make_dist: MakeDist,
) -> None:
    text = f"As a special exception to the GPL, plugins are free.\n\n{GPL}"
    found = resolve(make_dist(files={"licenses/COPYING": text}))
    assert found.expression == "GPL-2.0-only"
    assert any("exception" in conflict for conflict in found.conflicts)


@pytest.mark.parametrize("headers", ["License: MIT\n", ""])
def test_a_vague_copyleft_classifier_is_never_outvoted_by_a_bare_name(
    make_dist: MakeDist, headers: str
) -> None:
    found = resolve(
        make_dist(
            headers=f"{headers}"
            "Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: License :: OSI Approved :: GNU General Public License (GPL)"
        )
    )
    assert found.expression is None
    assert any("GPL" in conflict for conflict in found.conflicts)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ("License-Expression: LicenseRef-All-Rights-Reserved", "PROPRIETARY"),
        ("License: LicenseRef-Acme-EULA", "PROPRIETARY"),
        ("License: https://acme.example/license-agreement", "PROPRIETARY"),
        (
            (
                "License: Acme Simplified License\n"
                "Classifier: License :: Other/Proprietary License"
            ),
            "PROPRIETARY",
        ),
        ("Classifier: License :: Free To Use But Restricted", "PROPRIETARY"),
        ("Classifier: License :: Free for non-commercial use", "NON_COMMERCIAL"),
        ("License-Expression: LicenseRef-Acme-Non-Commercial", "NON_COMMERCIAL"),
        ("License-Expression: LicenseRef-Acme", "UNKNOWN"),
    ],
)
def test_what_calls_itself_proprietary_is_believed(
    make_dist: MakeDist, headers: str, kind: str
) -> None:
    expression = resolve(make_dist(headers=headers)).expression
    assert expression is not None
    assert classify(expression) is LicenseClass[kind]


def test_a_reference_that_names_its_class_is_never_milder_than_unknown() -> None:
    for kind in (LicenseClass.NON_COMMERCIAL, LicenseClass.PROPRIETARY):
        for usage in Usage:
            named = SEVERITY[DECISIONS[kind, usage].verdict]
            assert named >= SEVERITY[DECISIONS[LicenseClass.UNKNOWN, usage].verdict]


def test_the_first_text_of_a_long_list_is_the_works_own(
    make_dist: MakeDist, mit_text: str
) -> None:
    text = f"{mit_text}\n\nThis package bundles the following software:\n\n{GPL}"
    found = resolve(make_dist(headers="License: MIT", files={"licenses/LICENSE": text}))
    assert found.expression == "MIT"
    assert [item.expression for item in found.bundled] == ["GPL-2.0-only"]
