"""Fail a run that skips for a reason nobody agreed to.

A skip hides a check. Under ``CI`` every skip must match a reason listed for the
running session in ``tests/tolerated_skips.toml``.
"""

from __future__ import annotations

import fnmatch
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_TOLERATED = Path(__file__).with_name("tolerated_skips.toml")
_skips: list[tuple[str, str]] = []


def _tolerated_reasons() -> list[str]:
    """Return the reason patterns of every group that fits this session."""
    session = os.environ.get("LAZYCORE_SESSION", "")
    groups = tomllib.loads(_TOLERATED.read_text(encoding="utf-8"))
    return [
        pattern
        for group in groups.values()
        if any(fnmatch.fnmatch(session, name) for name in group["sessions"])
        for pattern in group["reasons"]
    ]


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        _skips.append((report.nodeid, reason))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not hasattr(report, "wasxfail"):
        _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if "CI" not in os.environ:
        return
    patterns = _tolerated_reasons()
    strangers = [
        (node, reason)
        for node, reason in _skips
        if not any(fnmatch.fnmatch(reason, pattern) for pattern in patterns)
    ]
    for node, reason in strangers:
        print(f"\nUNTOLERATED SKIP {node}: {reason}")
    if strangers and session.exitstatus == 0:
        session.exitstatus = 1
