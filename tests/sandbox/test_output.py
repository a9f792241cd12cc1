"""Bounded capture and what a person's terminal gets to see."""

from __future__ import annotations

import tracemalloc

import pytest

from lazycore.sandbox import (
    SandboxCommandFailedError,
    SandboxResult,
    SandboxTimeoutError,
    Violation,
)
from lazycore.sandbox import SandboxPolicyViolationError as ViolationError
from lazycore.sandbox._output import HeadTail, printable


def test_short_output_is_kept_as_it_is() -> None:
    keep = HeadTail(limit_bytes=8)
    for chunk in (b"ab", b"", b"cdef", b"gh"):
        keep.feed(chunk)
    kept = keep.captured()
    assert (kept.data, kept.truncated, kept.total_bytes) == (b"abcdefgh", False, 8)


def test_long_output_keeps_head_and_tail_and_states_the_cut() -> None:
    keep = HeadTail(limit_bytes=6)
    keep.feed(b"0123456789")
    kept = keep.captured()
    assert kept.data == b"012\n[4 bytes cut]\n789"
    assert kept.truncated
    assert kept.total_bytes == 10


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_flood_in_any_chunk_size_holds_little_memory(size: int) -> None:
    keep = HeadTail(limit_bytes=4096)
    for _ in range(20_000):
        keep.feed(b"x" * size)
    held = sum(len(part) for part in keep._tail)
    assert held <= 2048 + size
    assert len(keep._tail) <= 4096
    assert keep.captured().total_bytes == 20_000 * size


def test_handing_a_full_capture_over_copies_no_second_one() -> None:
    keep = HeadTail(limit_bytes=1 << 20)
    tracemalloc.start()
    try:
        for _ in range(64):
            keep.feed(bytes(1 << 16))
        whole = keep.captured().data
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(whole) > 1 << 20
    assert peak < 1.7 * len(whole)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("a\rb", "a\\rb"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("grün ✓", "grün ✓"),
    ],
)
def test_control_sequences_are_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def _result(**fields: object) -> SandboxResult:
    return SandboxResult(argv=("cmd",), backend="x", **fields)  # type: ignore[arg-type]


def test_check_passes_a_success_on() -> None:
    result = _result(returncode=0)
    assert result.check() is result


@pytest.mark.parametrize(
    ("result", "kind", "says"),
    [
        (_result(returncode=3, stderr=b"bad\x1b[2J"), SandboxCommandFailedError, "3"),
        (_result(signal=11), SandboxCommandFailedError, "signal 11"),
        (_result(timed_out=True, returncode=0), SandboxTimeoutError, "timeout"),
        (
            _result(signal=9, violations=(Violation(kind="memory", detail="1"),)),
            ViolationError,
            "memory",
        ),
    ],
    ids=["status", "signal", "timeout", "limit"],
)
def test_check_names_the_end_and_keeps_the_result(
    result: SandboxResult, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says) as caught:
        result.check()
    assert caught.value.result is result  # type: ignore[attr-defined]
    assert "\x1b" not in str(caught.value)
