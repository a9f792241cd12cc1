"""Commands that begin with a run folder, and the key that signs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazycore.experiments._cli_output import (
    OK,
    UNVERIFIED,
    counter,
    print_json,
    print_verdict,
)

if TYPE_CHECKING:
    import argparse

__all__ = ["compare", "export", "keygen", "report", "status", "verify"]


def status(options: argparse.Namespace) -> int:
    """Say how far a run is."""
    from lazycore.experiments._journal import holder
    from lazycore.experiments._reader import load_run

    record = load_run(options.run)
    writer = holder(options.run)
    state = "running" if writer is not None else record.reason
    if state == "running" and writer is None:
        state = "killed"
    if options.json:
        print_json(
            {
                "state": state,
                "process": writer,
                "planned": record.planned_cells,
                "finished": record.finished_cells,
                "failed": record.failed_cells,
                "sessions": record.sessions,
                "wall_s": record.wall_s,
                "lock": record.lock_digest,
                "results": record.results_digest,
            }
        )
        return OK
    done, planned = record.finished_cells, record.planned_cells
    print(f"{record.study.id}: {state}, {done} of {planned} cells")
    print(f"{record.failed_cells} failed, {record.sessions} sessions")
    print(f"lock    {record.lock_digest}")
    print(f"results {record.results_digest}")
    return OK


def verify(options: argparse.Namespace) -> int:
    """Check every byte of a run folder."""
    from lazycore.experiments._terminal import printable
    from lazycore.experiments._verify import verify_run

    with counter("verifying", "cells") as progress:
        found = verify_run(
            options.run, public_key=options.public_key, progress=progress
        )
    if options.json:
        print_json(
            {
                "holds": found.holds,
                "findings": list(found.findings),
                "lock": found.lock_digest,
                "results": found.results_digest,
                "records": found.records,
            }
        )
    else:
        for finding in found.findings:
            print(printable(finding))
        print(f"lock    {found.lock_digest}")
        print(f"results {found.results_digest}")
        verdict = "holds" if found.holds else f"{len(found.findings)} findings"
        print(f"{options.run}: {verdict}")
    return OK if found.holds else UNVERIFIED


def export(options: argparse.Namespace) -> int:
    """Write the rows of a run for other programs."""
    from lazycore.experiments._export import export_rows
    from lazycore.experiments._reader import load_run

    rows = load_run(options.run).rows
    export_rows(rows, options.output)
    if options.json:
        print_json({"rows": len(rows), "path": str(options.output)})
    else:
        print(f"wrote {len(rows)} rows to {options.output}")
    return OK


def keygen(options: argparse.Namespace) -> int:
    """Make a key that signs receipts."""
    from lazycore.experiments._receipts import generate_key

    key_id = generate_key(options.path)
    if options.json:
        print_json({"key": key_id, "public": f"{options.path}.pub"})
    else:
        print(f"key     {key_id}")
        print(f"written {options.path} and {options.path}.pub")
    return OK


def report(options: argparse.Namespace) -> int:
    """Write the report again and print the verdict."""
    from lazycore.experiments._comparison import compare_run
    from lazycore.experiments._journal import Journal
    from lazycore.experiments._reader import load_run
    from lazycore.experiments._report import write_report
    from lazycore.experiments._seal import update_seal

    record = load_run(options.run)
    with Journal(options.run):  # nobody else writes meanwhile
        comparison = compare_run(record)
        write_report(record, options.run / "report.html", comparison=comparison)
        if (options.run / "seal.json").exists():
            update_seal(options.run, "report.html")
    print_verdict(options, record, comparison)
    return OK


def compare(options: argparse.Namespace) -> int:
    """Compare the results of two runs."""
    from lazycore.experiments._compare import compare_runs
    from lazycore.experiments._reader import load_run

    difference = compare_runs(load_run(options.old), load_run(options.new))
    if options.json:
        print_json(difference.to_json())
    else:
        for line in difference.lines():
            print(line)
    return OK
