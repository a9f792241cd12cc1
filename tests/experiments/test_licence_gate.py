"""lazycore.licensing decides on every model slot before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import BlockedError, Blocker, load_run, run_study

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lazycore.experiments import StudyLock

    Write = Callable[..., Path]
    Make = Callable[[Path], StudyLock]

pytestmark = pytest.mark.usefixtures("one_sandbox")

RESTRICTED = """\
[[models]]
slot = "main"
checkpoint = "org/big-model"
license = "LicenseRef-org-community"
tier = 2
conditions = ["at most 700M monthly users", "name the model"]
url = "https://example.org/terms"
"""
BODY = "return {'score': len(request.model)}"


def test_tier_2_blocks_with_licence_conditions_and_the_call_that_accepts(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(write_study(BODY, extra=RESTRICTED))
    with pytest.raises(BlockedError) as caught:
        run_study(lock, tmp_path / "run")
    (blocker,) = caught.value.blockers
    assert isinstance(blocker, Blocker)
    assert blocker.code == "licence"
    for text in (
        "org/big-model",
        "LicenseRef-org-community",
        "700M monthly users",
        "https://example.org/terms",
    ):
        assert text in blocker.message
    assert "run_study(..., accept_restricted_licenses=True)" in blocker.fix
    assert "--accept-restricted-licenses" in blocker.fix
    assert not (tmp_path / "run" / "lock.json").exists()


def test_an_accepted_model_runs_and_the_acceptance_is_recorded(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    lock = make_lock(write_study(BODY, units=["u"], extra=RESTRICTED))
    run_study(lock, tmp_path / "run", accept_restricted_licenses=True)
    record = load_run(tmp_path / "run")
    assert record.rows[0].value == len("org/big-model")
    assert record.provenance["models"][0]["accepted"] is True


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tier = 2", "tier = 1", "tier 1"),
        ("LicenseRef-org-community", "No Such Licence!", "org/big-model"),
        ("org/big-model", "not a model", "not a model"),
    ],
)
def test_a_slot_that_licensing_refuses_blocks(  # noqa: PLR0917 - fixtures
    write_study: Write,
    make_lock: Make,
    tmp_path: Path,
    old: str,
    new: str,
    problem: str,
) -> None:
    lock = make_lock(write_study(BODY, extra=RESTRICTED.replace(old, new)))
    with pytest.raises(BlockedError, match=problem):
        run_study(lock, tmp_path / "run", accept_restricted_licenses=True)


def test_cells_multiply_over_model_slots(
    write_study: Write, make_lock: Make, tmp_path: Path
) -> None:
    extra = "".join(
        f"[[models]]\nslot = '{slot}'\ncheckpoint = 'org/{slot}'\n"
        "license = 'MIT'\ntier = 1\n"
        for slot in ("small", "tiny")
    )
    record = run_study(
        make_lock(write_study(BODY, units=["u"], extra=extra)), tmp_path / "run"
    )
    assert {row.benchmark: row.value for row in record.rows} == {
        "bench@small": 9.0,
        "bench@tiny": 8.0,
    }
