"""Ask whether a method of one's own helps: write, lock, run, compare, report."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lazycore.experiments import (
    Study,
    compare_run,
    lock_study,
    run_study,
    verify_run,
    write_report,
)

STUDY = """
schema = 1

[study]
id = "rounding"
title = "Round before summing"
question = "Does exact summation hit the right total more often?"
baseline = "no_op"
mode = "fork"
seeds = [0, 1]

[worker]
entrypoint = "worker.py"

[arms.no_op]
title = "plain sum"
parameters = { exact = false }

[arms.candidate]
title = "exact sum"
parameters = { exact = true }

[[benchmarks]]
id = "cents"
units = [
    "basket-00", "basket-01", "basket-02", "basket-03", "basket-04", "basket-05",
    "basket-06", "basket-07", "basket-08", "basket-09", "basket-10", "basket-11",
]

[metrics.right_total]
title = "right total"
kind = "binary"
primary = true
"""

WORKER = '''
"""Sum a basket of prices, plainly or exactly."""

import math

from lazycore.experiments import Reply, Request, serve


def handler(request: Request) -> Reply:
    draws = request.stream(request.unit)
    cents = [int(draws.random() * 10_000) for _ in range(400)]
    prices = [cent / 100 for cent in cents]
    total = math.fsum(prices) if request.parameters["exact"] else sum(prices)
    return Reply({"right_total": float(total == sum(cents) / 100)}, output=repr(total))


if __name__ == "__main__":
    serve(handler)
'''


def main() -> None:
    """Run the study in a scratch folder and print what it shows."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "study"
        folder.mkdir()
        (folder / "worker.py").write_text(WORKER, encoding="utf-8")
        path = folder / "study.toml"
        path.write_text(STUDY, encoding="utf-8")

        lock = lock_study(Study.load(path))
        print(f"lock    {lock.digest}")
        record = run_study(lock, Path(place) / "run", slots=2)
        print(f"results {record.results_digest}")

        comparison = compare_run(record)
        print(comparison.headline)
        for result in comparison.results:
            print(result.sentence)

        report = Path(place) / "report.html"
        write_report(record, report)
        print(f"{report.stat().st_size:,} bytes of report")
        print(f"verified: {verify_run(record.path).holds}")


if __name__ == "__main__":
    main()
