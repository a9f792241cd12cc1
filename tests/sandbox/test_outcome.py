"""The end of a run is read alike for every backend, and nothing is guessed."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from lazycore.sandbox import (
    ResourceLimits,
    SandboxCommandFailedError,
    SandboxPolicy,
    SandboxPolicyViolationError,
)
from lazycore.sandbox._outcome import Outcome, plain_end, result_of, shell_end
from lazycore.sandbox._output import Captured

CUT = Captured(data=b"x", truncated=True, total_bytes=9)
BOUNDED = ResourceLimits(
    cpu_s=1.5, memory_bytes=7, processes=8, workspace_bytes=9, file_size_bytes=10
)


@pytest.mark.parametrize(
    ("status", "plain", "shell"),
    [
        (0, (0, None), (0, None)),
        (7 << 8, (7, None), (7, None)),
        (128 << 8, (128, None), (128, None)),
        (137 << 8, (137, None), (None, 9)),
        (255 << 8, (255, None), (255, None)),
        (signal.SIGTERM, (None, 15), (None, 15)),
    ],
)
def test_a_status_is_read_by_the_rule_of_the_backend(
    status: int, plain: object, shell: object
) -> None:
    assert plain_end(status) == plain
    assert shell_end(status) == shell


@pytest.mark.parametrize(
    ("limits", "fields", "expected"),
    [
        (BOUNDED, {"status": 1 << 8}, []),
        (BOUNDED, {"limit": "cpu"}, [("cpu", "1.5 s")]),
        (BOUNDED, {"limit": "memory"}, [("memory", "7 bytes")]),
        (BOUNDED, {"limit": "processes"}, [("processes", "8 processes")]),
        (BOUNDED, {"limit": "workspace"}, [("workspace", "9 bytes")]),
        (BOUNDED, {"status": signal.SIGXFSZ}, [("file-size", "10 bytes")]),
        (BOUNDED, {"status": signal.SIGXCPU}, [("cpu", "1.5 s")]),
        # One limit ends a run, whatever signal its first process then died of.
        (
            BOUNDED,
            {"status": signal.SIGXCPU, "limit": "memory"},
            [("memory", "7 bytes")],
        ),
        # A target may send itself any signal: without a limit none was passed.
        (ResourceLimits(), {"status": signal.SIGXFSZ}, []),
        (ResourceLimits(), {"status": signal.SIGXCPU}, []),
        (ResourceLimits(), {"status": signal.SIGKILL}, []),
        (
            ResourceLimits(),
            {"status": signal.SIGSYS},
            [("syscall", "a foreign system call interface")],
        ),
        (
            ResourceLimits(),
            {"status": 9, "timed_out": True, "stderr": CUT},
            [("timeout", "60 s"), ("output", "stderr")],
        ),
    ],
)
def test_what_ended_a_run_is_named(
    limits: ResourceLimits, fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    outcome = Outcome(**{"status": signal.SIGKILL, **fields})
    result = result_of(
        outcome,
        SandboxPolicy(limits=limits),
        argv=("x",),
        backend="test",
        held=frozenset(),
        started=0,
    )
    assert [(item.kind, item.detail) for item in result.violations] == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stdout": CUT}, SandboxCommandFailedError),
        ({"stdout": CUT, "limit": "cpu"}, SandboxPolicyViolationError),
    ],
)
def test_cut_output_alone_is_no_reason_for_a_failure(
    fields: dict[str, Any], expected: type[Exception]
) -> None:
    result = result_of(
        Outcome(status=1 << 8, **fields),
        SandboxPolicy(limits=BOUNDED),
        argv=("x",),
        backend="test",
        held=frozenset(),
        started=0,
    )
    with pytest.raises(expected):
        result.check()
