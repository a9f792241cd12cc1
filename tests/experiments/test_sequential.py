"""Declared looks share one level, and see only what they were declared to see."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import Study
from lazycore.experiments._comparison import compare_rows
from lazycore.experiments._looks import look_shares, see_looks
from lazycore.experiments._paired_summary import summarise
from lazycore.experiments._plan import look_of_units, plan_cells
from lazycore.experiments._power import plan_lines
from lazycore.experiments._report import write_report
from lazycore.experiments._results import ResultRow
from lazycore.experiments._sequential import look_levels
from lazycore.experiments._study import Analysis
from lazycore.experiments._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from lazycore.experiments import RunRecord

    Write = Callable[..., Path]
    MakeRecord = Callable[..., RunRecord]

FIFTHS = (0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize(
    ("spending", "bounds"),
    [
        # As group-sequential programs print them for five equal looks at 5 %.
        ("obrien-fleming", (4.877, 3.357, 2.680, 2.290, 2.031)),
        ("pocock", (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_bounds_are_the_published_ones(
    spending: str, bounds: tuple[float, ...]
) -> None:
    levels = look_levels(FIFTHS, 0.05, spending)
    found = [-NormalDist().inv_cdf(level / 2) for level in levels]
    assert found == pytest.approx(bounds, abs=0.0011)


def test_one_look_at_the_end_has_the_whole_level() -> None:
    assert look_levels((1.0,), 0.05, "pocock") == pytest.approx((0.05,))


def test_a_look_that_sees_nothing_new_spends_nothing() -> None:
    once = look_levels((0.5, 1.0), 0.05, "pocock")
    twice = look_levels((0.5, 0.5, 1.0), 0.05, "pocock")
    assert twice == pytest.approx((once[0], once[0], once[1]))


def reject_somewhere(studies: int, spending: str, units: int, resamples: int) -> float:
    """Return how often a study of nothing rejects at any of four looks."""
    shares = (0.25, 0.5, 0.75, 1.0)
    levels = look_levels(shares, 0.05, spending)
    rejected = 0
    for study in range(studies):
        draw = random.Random(f"{spending} {study}")
        values = [draw.gauss(0, 1) for _ in range(units)]
        for share, level in zip(shares, levels, strict=True):
            found = summarise(
                values[: int(share * units)],
                binary=False,
                one_seed=False,
                margin=None,
                confidence=1 - level,
                resamples=resamples,
                seed=(str(study), str(share)),
            )
            assert found.p_value is not None
            if found.p_value <= level:
                rejected += 1
                break
    return rejected / studies


@pytest.mark.once
def test_a_few_studies_of_nothing_with_four_looks_each() -> None:
    assert reject_somewhere(30, "pocock", 40, 99) <= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("spending", ["pocock", "obrien-fleming"])
def test_four_looks_together_keep_the_level(spending: str) -> None:
    assert 0.035 <= reject_somewhere(2_000, spending, 120, 999) <= 0.065


def study_with_looks(write_study: Write, looks: str, **options: object) -> Study:
    extra = f"[analysis]\nlooks = {looks}\nspending = 'pocock'\nresamples = 999\n"
    return Study.load(
        write_study(extra=extra, units=[f"u{i:02}" for i in range(40)], **options)
    )


def rows_of(study: Study, units: Iterable[str], gain: float) -> list[ResultRow]:
    return [
        ResultRow(
            cell=f"{unit}:{seed}".ljust(64, "0"),
            benchmark="bench",
            unit=unit,
            seed=seed,
            arm=arm,
            metric="score",
            value=gain * (arm == "candidate") + int(unit[1:]) / 1000,
            status="succeeded",
            failure_class=None,
            attempt=1,
            wall_s=None,
            cpu_s=None,
            max_rss_bytes=None,
            request_digest="0" * 64,
            response_digest=None,
        )
        for unit in units
        for seed in study.seeds
        for arm in ("no_op", "candidate")
    ]


def test_the_plan_runs_a_drawn_sample_up_to_each_look(write_study: Write) -> None:
    study = study_with_looks(write_study, "[0.25, 0.5]", seeds=[0, 1])
    cells = list(plan_cells(study, "0" * 64))
    stage = look_of_units(study.benchmarks[0], study.analysis.looks)
    assert [stage[cell.units[0]] for cell in cells] == [0] * 20 + [1] * 20 + [2] * 40
    assert [cell.index for cell in cells] == list(range(80))
    first = {cell.units[0] for cell in cells[:20]}
    assert len(first) == 10
    assert first != {f"u{i:02}" for i in range(10)}
    assert look_shares(study.benchmarks[0], (0.25, 0.5)) == (0.25, 0.5, 1.0)


def test_a_look_sees_its_share_and_nothing_that_ran_since(write_study: Write) -> None:
    study = study_with_looks(write_study, "[0.25, 0.5]")
    order = [cell.units[0] for cell in plan_cells(study, "0" * 64)]
    early = compare_rows(study, rows_of(study, order[:5], 1.0), seed="x", interim=True)
    assert early.headline.startswith("Before the first of 3 declared looks: ")
    assert early.results[0].verdict is Verdict.NOT_MEASURED
    assert early.tentative
    at, later = (
        compare_rows(study, rows_of(study, order[:n], 1.0), seed="x", interim=True)
        for n in (10, 17)
    )
    assert at == later
    assert (at.look, at.looks, at.tentative) == (1, 3, False)
    assert at.headline == "Declared look 1 of 3: candidate helps on bench."
    level = look_levels((0.25,), 0.05, "pocock")[0]
    (result,) = at.results
    assert result.units == 10
    assert result.p_value == 2 / 1024
    assert result.p_adjusted == pytest.approx(2 / 1024 * 0.05 / level)
    assert result.confidence == pytest.approx(1 - level)
    assert see_looks(study, rows_of(study, order, 1.0)).reached == 3


def test_the_end_pays_for_the_looks(write_study: Write) -> None:
    study = study_with_looks(write_study, "[0.5]")
    units = study.benchmarks[0].units
    # Nine gained, one lost: p is 0.0215, below 5 % but not below what is left of it.
    rows = [
        row
        for unit in units
        for row in rows_of(study, [unit], {"u00": -1.0}.get(unit, float(unit < "u10")))
    ]
    final = compare_rows(study, rows, seed="x")
    (result,) = final.results
    assert result.p_value == pytest.approx(22 / 1024)
    level = look_levels((0.5, 1.0), 0.05, "pocock")[-1]
    assert result.p_adjusted == pytest.approx(22 / 1024 * 0.05 / level)
    assert not final.headline.startswith("Declared look")


def test_plan_names_the_level_of_each_look(write_study: Write) -> None:
    study = study_with_looks(write_study, "[0.25]")
    lines = plan_lines(study)
    level = look_levels((0.25, 1.0), 0.05, "pocock")
    assert f"level {level[1]:.3g}" in lines[0]
    assert lines[1] == f"bench: a look at 25 % decides at level {level[0]:.3g}"
    assert study.path is not None
    text = study.path.read_text(encoding="utf-8")
    study.path.write_text(text.replace("'pocock'", "'obrien-fleming'"))
    assert "999 draws show no p below 0.001" in plan_lines(Study.load(study.path))[1]


def test_only_a_look_that_was_declared_carries_no_watermark(
    make_record: MakeRecord, tmp_path: Path
) -> None:
    whole = make_record({"bench": {f"u{i}": [(0.0, 1.0)] for i in range(20)}})
    looks = Analysis(resamples=999, looks=(0.5,))
    stage = look_of_units(whole.study.benchmarks[0], looks.looks)
    half = replace(
        whole,
        complete=False,
        rows=tuple(row for row in whole.rows if stage[row.unit] == 0),
    )
    declared = replace(half, study=replace(half.study, analysis=looks))
    page = tmp_path / "report.html"
    for record, marked in ((half, True), (declared, False)):
        write_report(record, page)
        text = page.read_text(encoding="utf-8")
        assert ('<body class="interim">' in text) is marked
        assert ("This page shows look 1 of 2" in text) is not marked
