from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from lazycore.experiments import FailureRow, compare_run
from lazycore.experiments._study import Metric
from lazycore.experiments._summary import print_verdict, progress
from lazycore.experiments._terminal import on_rich_terminal, printable, safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.experiments import RunRecord

    MakeRecord = Callable[..., RunRecord]

BINARY = Metric(name="accuracy", title="accuracy", kind="binary", primary=True)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def record(make_record: MakeRecord) -> RunRecord:
    up = {f"u{i:03d}": [(float(i % 5 > 0), 1.0)] for i in range(100)}
    flat = {f"u{i:03d}": [(1.0, float(i > 2))] for i in range(100)}
    return make_record({"a long benchmark name": up, "flat": flat}, metric=BINARY)


def test_a_pipe_gets_one_plain_table(record: RunRecord) -> None:
    stream = io.StringIO()
    print_verdict(record, compare_run(record), stream)
    assert stream.getvalue().splitlines() == [
        (
            "candidate helps on a long benchmark name; no difference shown on flat; "
            "no harm shown."
        ),
        "",
        "accuracy: candidate minus baseline (95 % intervals, Holm-adjusted p)",
        (
            "benchmark              units     base  candidate      diff"
            "        interval        p  verdict"
        ),
        (
            "a long benchmark name    100   80.0 %    100.0 %  +20.0 pp"
            "  +13.0 to +28.0  < 0.001  helps"
        ),
        (
            "flat                     100  100.0 %     97.0 %   \N{MINUS SIGN}3.0 pp"
            "     \N{MINUS SIGN}7.0 to 0.0    0.250  none shown"
        ),
        "",
        "200 of 200 cells, none failed, 12.5 s",
    ]


@pytest.mark.parametrize("columns", [80, 60, 24, 1])
def test_no_table_line_is_wider_than_the_terminal(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    print_verdict(record, compare_run(record), stream)
    lines = stream.getvalue().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("accuracy"))
    table = lines[start + 1 : -2]
    assert max(map(len, table)) <= max(columns, 50)
    assert any("none shown" in line or "no difference" in line for line in table)


def test_colours_come_with_rich_and_go_with_no_color(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    print_verdict(record, compare_run(record), coloured)
    assert "\x1b[" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_verdict(record, compare_run(record), plain)
    assert "\x1b[3" not in plain.getvalue()


def test_names_can_neither_steer_the_terminal_nor_pass_for_markup(
    make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "\x1b]0;title\x07[red]x[/red]\n\u202e"
    record = make_record({name: {"u": [(0.0, 1.0)]}}, titles=("t", "b", name))
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("NO_COLOR", "1")
        print_verdict(record, compare_run(record), stream)
        assert "\x1b]0;" not in stream.getvalue()
        assert "\u202e" not in stream.getvalue()
        assert "[red]x[/red]" in stream.getvalue()


def test_a_narrow_encoding_gets_plain_signs(record: RunRecord) -> None:
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding="ascii")
    print_verdict(record, compare_run(record), stream)
    stream.flush()
    assert b"-3.0 pp" in data.getvalue()


def failure(kind: str) -> FailureRow:
    return FailureRow(
        cell="0" * 64,
        benchmark="b",
        units=("u",),
        seed=0,
        arm="candidate",
        attempt=1,
        failure_class=kind,
        message="",
        final=True,
    )


def test_lines_follow_a_run_on_a_pipe(record: RunRecord) -> None:
    stream = io.StringIO()
    observer = progress(stream)
    observer.started(study=record.study, planned=3, finished=1, slots=2)
    observer.cell_finished(rows=(), failures=(), finished=2, planned=3)
    observer.cell_finished(
        rows=(), failures=(failure("timeout"),), finished=3, planned=3
    )
    observer.closed()
    first, last = stream.getvalue().splitlines()
    assert first == "sample: 3 cells on 2 slots, 1 finished before"
    assert last.startswith("3 of 3 cells, ")
    assert last.endswith("cells/s, failed attempts: timeout 1")


def test_rich_follows_a_run_on_a_terminal_without_a_thread(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich", reason="rich is not installed")
    import threading

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    threads = threading.active_count()
    stream = Terminal()
    observer = progress(stream)
    observer.started(study=record.study, planned=2, finished=0, slots=2)
    assert threading.active_count() == threads
    observer.cell_finished(rows=(), failures=(failure("oom"),), finished=1, planned=2)
    observer.cell_finished(rows=(), failures=(), finished=2, planned=2)
    observer.closed()
    assert "2/2" in stream.getvalue()
    assert "oom 1" in stream.getvalue()


def test_a_pipe_is_no_rich_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert not on_rich_terminal(io.StringIO())
    monkeypatch.setenv("TERM", "dumb")
    assert not on_rich_terminal(Terminal())


def test_control_characters_are_written_out() -> None:
    assert printable("a\x1b[0m\r\n\x9b\u2066") == "a\\x1b[0m\\r\\n\\x9b\\u2066"
    assert safe("ünï", io.TextIOWrapper(io.BytesIO(), "ascii")) == "\\xfcn\\xef"
