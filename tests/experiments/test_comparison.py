from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments._comparison import compare_rows, compare_run
from lazycore.experiments._study import Analysis, Metric
from lazycore.experiments._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]
    Pair = tuple[float | None, float | None]

BINARY = Metric(name="accuracy", title="accuracy", kind="binary", primary=True)


def binary(gained: int, lost: int, equal: int) -> dict[str, list[Pair]]:
    """Return one-seed units that gained, lost and stayed."""
    pairs: list[Pair] = [
        *[(0.0, 1.0)] * gained,
        *[(1.0, 0.0)] * lost,
        *[(1.0, 1.0)] * equal,
    ]
    return {f"u{i:04d}": [pair] for i, pair in enumerate(pairs)}


def verdict(record: RunRecord) -> Verdict:
    (result,) = compare_run(record).results
    return result.verdict


def test_one_seed_binary_metric_by_hand(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(9, 1, 90)}, metric=BINARY)
    (result,) = compare_run(record).results
    assert (result.wins, result.losses, result.ties) == (9, 1, 90)
    assert result.baseline_mean == 0.91
    assert result.candidate_mean == 0.99
    assert result.difference == pytest.approx(0.08)
    assert result.p_value == result.mcnemar_p == 22 / 1024
    assert result.p_method == "exact McNemar"
    assert result.interval is not None
    assert 0.0 < result.interval[0] < 0.08 < result.interval[1] < 0.16
    assert result.verdict is Verdict.HELPS
    assert result.sentence.startswith(
        "candidate on bench helps: accuracy +8.0 pp (95 %"
    )


def test_several_seeds_do_not_count_as_units(make_record: MakeRecord) -> None:
    # Five units gained in each of 20 seeds: 5 clusters can't reach 5 %.
    record = make_record({"bench": {f"u{i}": [(0.0, 1.0)] * 20 for i in range(5)}})
    (result,) = compare_run(record).results
    assert result.units == 5
    assert result.p_value == 2 / 32
    assert result.verdict is Verdict.NO_DIFFERENCE


def test_the_goal_turns_the_verdict_not_the_difference(make_record: MakeRecord) -> None:
    loss = Metric(
        name="loss", title="loss", goal="minimize", primary=True, failed_value=None
    )
    values = {f"u{i:02d}": [(1.0 + i / 100, 0.5 + i / 90)] for i in range(30)}
    record = make_record({"bench": values}, metric=loss)
    (result,) = compare_run(record).results
    assert result.difference is not None
    assert result.difference < 0
    assert result.wins == 30
    assert result.verdict is Verdict.HELPS


def test_harm_is_said_when_it_is_shown(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(2, 30, 100)}, metric=BINARY)
    comparison = compare_run(record)
    assert comparison.headline == "candidate harms on bench."
    assert comparison.results[0].verdict is Verdict.HARMS


def test_no_harm_is_claimed_from_a_small_minus(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(5, 8, 100)}, metric=BINARY)
    comparison = compare_run(record)
    assert comparison.headline == "candidate: no difference shown on bench."
    assert "harm" not in comparison.results[0].sentence


def test_equivalence_needs_a_margin_and_enough_units(make_record: MakeRecord) -> None:
    metric = Metric(
        name="accuracy",
        title="accuracy",
        kind="binary",
        primary=True,
        equivalence_margin=0.05,
    )
    large = make_record({"bench": binary(9, 9, 1982)}, metric=metric)
    assert verdict(large) is Verdict.EQUIVALENT
    (result,) = compare_run(large).results
    assert "is equivalent within 5 pp" in result.sentence
    small = make_record({"bench": binary(2, 2, 36)}, metric=metric)
    assert verdict(small) is Verdict.NO_DIFFERENCE
    unasked = make_record({"bench": binary(9, 9, 1982)}, metric=BINARY)
    assert verdict(unasked) is Verdict.NO_DIFFERENCE


def test_units_that_never_disagree_are_no_proof_of_equality(
    make_record: MakeRecord,
) -> None:
    metric = Metric(
        name="accuracy",
        title="accuracy",
        kind="binary",
        primary=True,
        equivalence_margin=0.05,
    )
    few = make_record({"bench": binary(0, 0, 20)}, metric=metric)
    (result,) = compare_run(few).results
    # 1 - 0.05 ** (1 / 20): so many of 100 units might still disagree.
    assert result.interval == pytest.approx((-0.1391, 0.1391), abs=1e-4)
    assert result.verdict is Verdict.NO_DIFFERENCE
    many = make_record({"bench": binary(0, 0, 200)}, metric=metric)
    assert verdict(many) is Verdict.EQUIVALENT


def test_the_same_gain_everywhere_has_no_interval_but_a_p(
    make_record: MakeRecord,
) -> None:
    record = make_record({"bench": {f"u{i}": [(1.0, 1.5)] for i in range(8)}})
    (result,) = compare_run(record).results
    assert result.interval is None
    assert result.p_value == 2 / 256
    assert result.verdict is Verdict.HELPS
    assert "no interval: every unit differed by the same amount" in result.sentence


def test_primaries_share_their_level_by_holm(make_record: MakeRecord) -> None:
    # p = 0.021 alone; with two more benchmarks Holm asks for 0.05 / 3.
    alone = make_record({"one": binary(9, 1, 90)}, metric=BINARY)
    assert verdict(alone) is Verdict.HELPS
    family = make_record(
        {"one": binary(9, 1, 90), "two": binary(4, 4, 9), "three": binary(3, 3, 9)},
        metric=BINARY,
    )
    first = compare_run(family).results[0]
    assert first.p_adjusted == pytest.approx(3 * 22 / 1024)
    assert first.verdict is Verdict.NO_DIFFERENCE


def test_a_benchmark_still_to_come_counts_in_the_family(
    make_record: MakeRecord,
) -> None:
    record = make_record(
        {"one": binary(9, 1, 90), "two": {"u": []}, "three": {"u": []}},
        metric=BINARY,
        planned=500,
    )
    first, second, _ = compare_run(record).results
    assert first.p_adjusted == pytest.approx(3 * 22 / 1024)
    assert second.p_adjusted is None


def test_headline_names_every_verdict(make_record: MakeRecord) -> None:
    record = make_record(
        {"up": binary(40, 2, 60), "flat": binary(3, 3, 60), "gone": {"u": []}},
        metric=BINARY,
    )
    assert compare_run(record).headline == (
        "candidate helps on up; no difference shown on flat; not measured on gone; "
        "no harm shown."
    )


def test_failed_arms_are_shown_under_every_policy(make_record: MakeRecord) -> None:
    pairs = binary(0, 0, 30)
    pairs |= {f"x{i}": [(1.0, None)] for i in range(12)}
    record = make_record({"bench": pairs}, metric=BINARY)
    (result,) = compare_run(record).results
    assert result.failed_pairs == 12
    assert result.verdict is Verdict.HARMS
    rows = {row.name: row for row in result.sensitivity}
    assert list(rows) == ["score", "drop-pair", "worst-case"]
    assert rows["score"].declared
    assert rows["drop-pair"].difference == 0.0
    assert rows["drop-pair"].units == 30
    assert rows["score"].difference == pytest.approx(-12 / 42)


def test_a_failing_arm_never_helps_on_a_loss(make_record: MakeRecord) -> None:
    loss = Metric(
        name="loss", title="loss", goal="minimize", primary=True, failed_value=None
    )
    values = {f"u{i:02d}": [(1.0 + i / 9, None)] for i in range(30)}
    plan = Analysis(resamples=999, failed_arms="worst-case")
    record = make_record({"bench": values}, metric=loss, analysis=plan)
    (result,) = compare_run(record).results
    assert result.wins == 0
    assert result.verdict is Verdict.HARMS
    assert [row.name for row in result.sensitivity] == ["drop-pair", "worst-case"]


def test_retried_units_are_set_apart(make_record: MakeRecord) -> None:
    values = binary(9, 1, 90)
    record = make_record({"bench": values}, metric=BINARY, retried=["u0000", "u0001"])
    (result,) = compare_run(record).results
    (row,) = result.sensitivity
    assert row.name == "without retried units"
    assert row.units == 98
    assert row.difference == pytest.approx(6 / 98)


def test_an_unfinished_run_is_an_interim_look(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(40, 2, 60)}, metric=BINARY, planned=500)
    comparison = compare_run(record)
    assert comparison.interim
    assert comparison.headline.startswith("Interim look, no verdict is final: ")


def test_rows_in_any_order_give_the_same_comparison(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(20, 11, 30)}, metric=BINARY)
    forward = compare_run(record)
    backward = compare_rows(
        record.study, reversed(record.rows), seed=record.lock["study_sha256"]
    )
    assert backward == forward


def test_a_binary_metric_beyond_one_gets_no_bound(make_record: MakeRecord) -> None:
    record = make_record(
        {"bench": {f"u{i}": [(7.0, 7.0)] for i in range(30)}}, metric=BINARY
    )
    (result,) = compare_run(record).results
    assert result.interval is None
    assert result.verdict is Verdict.NO_DIFFERENCE


def test_the_headline_of_many_benchmarks_stays_a_sentence(
    make_record: MakeRecord,
) -> None:
    record = make_record(
        {f"b{i:02d}": binary(3, 3, 9) for i in range(40)}, metric=BINARY
    )
    assert compare_run(record).headline == (
        "candidate: no difference shown on b00, b01, b02, b03, b04 and 35 more."
    )


def test_json_holds_everything_but_the_units(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(20, 11, 30)}, metric=BINARY)
    document = json.loads(json.dumps(compare_run(record).to_json()))
    (result,) = document["results"]
    assert result["verdict"] == "no difference shown"
    assert result["units"] == 61
    assert "paired" not in result


def test_a_declared_group_is_the_cluster(make_record: MakeRecord) -> None:
    record = make_record({"bench": binary(12, 0, 8)}, metric=BINARY)
    (single,) = compare_run(record).results
    assert single.verdict is Verdict.HELPS
    units = record.study.benchmarks[0].units
    groups = {f"g{i}": tuple(units[4 * i : 4 * i + 4]) for i in range(5)}
    benchmark = replace(record.study.benchmarks[0], groups=groups)
    study = replace(record.study, benchmarks=(benchmark,))
    (grouped,) = compare_run(replace(record, study=study)).results
    # Three of five groups gained: a sign-flip p of 2/8, whatever their units say.
    assert grouped.difference == single.difference
    assert (grouped.units, grouped.clusters, grouped.grouped) == (20, 5, True)
    assert grouped.p_value == 2 / 8
    assert grouped.mcnemar_p is None
    assert grouped.verdict is Verdict.NO_DIFFERENCE
    assert "20 units in 5 groups" in grouped.sentence
