"""Policies and outputs hold their invariants for whatever is put in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lazycore.sandbox import ResourceLimits, SandboxPolicy, SandboxPolicyError
from lazycore.sandbox._output import HeadTail, printable
from lazycore.sandbox._paths import is_within, normalise_path

_part = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]))
_path = st.lists(_part.filter(lambda p: p not in {"", ".", ".."}), min_size=1).map(
    lambda parts: "/" + "/".join(parts)
)


def _usable(path: str) -> bool:
    return path.split("/")[1] not in {"proc", "sys", "dev"}


_paths = st.lists(_path.filter(_usable), max_size=3)
_names = st.text(st.characters(exclude_characters="=\0", exclude_categories=["Cs"]))
_policies = st.builds(
    SandboxPolicy,
    allow_network=st.booleans(),
    allowed_read_paths=_paths,
    allowed_write_paths=_paths,
    allowed_executables=st.none() | _paths,
    env=st.dictionaries(_names.filter(bool), _names, max_size=3),
    timeout_s=st.none() | st.floats(0.001, 1e9) | st.integers(1, 10**9),
    limits=st.builds(
        ResourceLimits,
        memory_bytes=st.none() | st.integers(1, 2**60),
        cpu_s=st.none() | st.floats(0.001, 1e6),
        output_bytes=st.integers(1, 2**40),
    ),
    include_system=st.booleans(),
)


@given(_policies)
def test_json_round_trip_loses_nothing(policy: SandboxPolicy) -> None:
    again = SandboxPolicy.from_json(policy.to_json())
    assert again == policy
    assert again.digest == policy.digest
    assert hash(again) == hash(policy)


@given(st.text())
def test_any_text_is_a_clean_path_or_refused(text: str) -> None:
    try:
        clean = normalise_path("role", text)
    except SandboxPolicyError:
        return
    assert clean.startswith("/")
    assert clean == normalise_path("role", clean)
    assert not {"", ".", ".."} & set(clean.split("/")[1:])


@given(_path, _path)
def test_within_is_by_whole_components(path: str, ancestor: str) -> None:
    parts, above = path.split("/"), ancestor.split("/")
    assert is_within(path, ancestor) == (parts[: len(above)] == above)


@given(st.integers(1, 50), st.lists(st.binary(max_size=40)))
def test_capture_keeps_both_ends_of_any_stream(limit: int, chunks: list[bytes]) -> None:
    keep = HeadTail(limit_bytes=limit)
    for chunk in chunks:
        keep.feed(chunk)
    whole, kept = b"".join(chunks), keep.captured()
    assert kept.total_bytes == len(whole)
    assert kept.truncated == (len(whole) > limit)
    if not kept.truncated:
        assert kept.data == whole
        return
    head, tail = limit - limit // 2, limit // 2
    assert kept.data.startswith(whole[:head])
    assert kept.data.endswith(whole[len(whole) - tail :])


@given(st.text())
def test_what_a_terminal_gets_holds_no_control_character(text: str) -> None:
    shown = printable(text)
    assert all(char in "\n\t" or char.isprintable() for char in shown)
