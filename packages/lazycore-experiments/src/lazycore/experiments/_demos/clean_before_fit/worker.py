"""Spoil a bundled table, clean it or not, fit on four folds, score the fifth."""  # noqa: INP001 - a worker file, copied into a study's tree

from __future__ import annotations

import os
import warnings
from typing import Any

# One thread per worker: slots already share the cores, sums keep their order, and
# nothing but the main thread exists when the warm server forks.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lazycore.experiments import BenchmarkFailure, Reply, Request, serve

LOADERS = {
    "breast_cancer": load_breast_cancer,
    "wine": load_wine,
    "digits": load_digits,
}
# Fences this far out touch nothing but plain errors of entry.
FENCE_WIDTHS = 8
tables: dict[str, Any] = {}


def load() -> None:
    """Read the tables, and fit once so that no request pays for the first call."""
    for name, loader in LOADERS.items():
        tables[name] = loader()
    classifier().fit([[0.0], [1.0]], [0, 1]).predict([[0.5]])


def classifier() -> Any:
    """Return the model that both arms fit."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


def spoil(values: Any, request: Request) -> Any:
    """Replace 0.2 % of the values by -999 and scale 0.2 % by 1000."""
    generator = np.random.default_rng(request.stream("spoil").getrandbits(64))
    spoiled = values.astype(float)
    draw = generator.random(values.shape)
    rate = request.parameters["spoiled_share"] / 2
    spoiled[draw < rate] = -999
    spoiled[(draw >= rate) & (draw < 2 * rate)] *= 1000
    return spoiled


def clean(values: Any, train: Any) -> Any:
    """Replace what lies far outside the training rows by their median."""
    low, median, high = np.quantile(train, [0.25, 0.5, 0.75], axis=0)
    width = FENCE_WIDTHS * (high - low) + 1e-9
    outside = (values < low - width) | (values > high + width)
    return np.where(outside, median, values)


def handler(request: Request) -> Reply:
    """Score each unit of the block: one row of the table, held out."""
    table = tables[request.benchmark]
    held_out = [int(unit.rpartition("-")[2]) for unit in request.units]
    if max(held_out) >= len(table.target):
        raise BenchmarkFailure("rows", f"the table has {len(table.target)} rows")
    values = spoil(table.data, request)
    train = np.setdiff1d(np.arange(len(values)), held_out)
    fit, score = values[train], values[held_out]
    if request.parameters["clean"]:
        fit, score = clean(fit, fit), clean(score, fit)
    with warnings.catch_warnings():
        # Spoiled values keep the solver from converging: that is the experiment.
        warnings.simplefilter("ignore")
        found = classifier().fit(fit, table.target[train]).predict(score)
    names = [str(name) for name in table.target_names]
    return Reply(
        units={
            unit: Reply(
                {"accuracy": float(got == want)},
                output={"predicted": names[got], "actual": names[want]},
            )
            for unit, got, want in zip(
                request.units, found, table.target[held_out], strict=True
            )
        }
    )


if __name__ == "__main__":
    serve(handler, prepare=load)
