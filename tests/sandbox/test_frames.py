"""What crosses the border back is data: what travels, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import math
import pickle
import struct
import time
import uuid
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import NoReturn

import pytest

from lazycore.sandbox import _frame_reader, _frame_tables, _frame_types
from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frames import (
    RaisedException,
    decode,
    encode,
    encode_exception,
)

NONCE = b"0123456789abcdef"
LIMIT = 1 << 20


def round_trip(value: object) -> object:
    return decode(
        encode(value, nonce=NONCE, limit_bytes=LIMIT), nonce=NONCE, limit_bytes=LIMIT
    )


def frame_of(payload: bytes, *, kind: int = 0) -> bytes:
    header = b"LCF1" + bytes((len(NONCE),)) + NONCE + bytes((kind,))
    return header + struct.pack("!I", len(payload)) + payload


def refuse(payload: bytes, *, kind: int = 0, limit: int = LIMIT) -> str:
    with pytest.raises(SandboxFrameError) as caught:
        decode(frame_of(payload, kind=kind), nonce=NONCE, limit_bytes=limit)
    return str(caught.value)


UTC_PLUS = dt.timezone(dt.timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**63,
        -(2**200),
        0.0,
        -0.0,
        math.inf,
        "",
        "a\ud800b",
        "\0",
        b"",
        b"\xff" * 300,
        [],
        (),
        {},
        set(),
        frozenset({1, "a"}),
        {"a": [1, (2, {3: {4}})]},
        dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC_PLUS),
        dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - naive ones travel too
        dt.date(1, 1, 1),
        dt.time(23, 59, 59, 999_999),
        dt.time(1, tzinfo=dt.UTC),
        dt.timedelta(days=-5, microseconds=7),
        Decimal("1.10"),
        Decimal("-Infinity"),
        Decimal("1E+1000000"),
        Path("/a/b c"),
        uuid.UUID(int=7),
    ],
    ids=repr,
)
def test_a_value_comes_back_equal_and_of_the_same_type(value: object) -> None:
    back = round_trip(value)
    assert back == value
    assert type(back) is type(value)


def test_the_sign_of_zero_nan_and_the_fold_survive() -> None:
    back = round_trip([-0.0, math.nan, dt.time(1, fold=1), Decimal("NaN")])
    assert isinstance(back, list)
    assert math.copysign(1, back[0]) == -1
    assert math.isnan(back[1])
    assert back[2].fold == 1
    assert back[3].is_nan()


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    A = 1


class LyingText(str):
    __slots__ = ()

    def encode(self, *_args: object, **_kwargs: object) -> bytes:
        return b"lie"


class LyingList(list[int]):
    def __iter__(self) -> NoReturn:
        raise AssertionError


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the untyped kind


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    label: str
    inner: tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (LyingText("x"), "x"),
        (LyingList([1, 2]), [1, 2]),
        (Point(1, 2), (1, 2)),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(int, a=1), {"a": 1}),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xy"), b"xy"),
        (PurePosixPath("a"), Path("a")),
        (Box("b", (1,)), {"label": "b", "inner": (1,)}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_instance_of_a_subclass_travels_as_its_base(
    value: object, expected: object
) -> None:
    back = round_trip(value)
    assert back == expected
    assert type(back) is type(expected)


@pytest.mark.parametrize(
    "value",
    [object(), Plain.A, lambda: 1, iter(()), 1j, Box, {1: object()}],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_plain_form_is_refused_by_name(value: object) -> None:
    with pytest.raises(SandboxFrameError, match="cannot leave the sandbox"):
        encode(value, nonce=NONCE, limit_bytes=LIMIT)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append({"again": (loop,)})
    with pytest.raises(SandboxFrameError, match="contains itself"):
        encode(loop, nonce=NONCE, limit_bytes=LIMIT)


def test_a_value_seen_twice_side_by_side_is_no_cycle() -> None:
    shared = [1]
    assert round_trip([shared, shared]) == [[1], [1]]


def test_deep_nesting_is_refused_on_both_sides_without_recursion() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SandboxFrameError, match="nested deeper"):
        encode(deep, nonce=NONCE, limit_bytes=LIMIT)
    assert "nested deeper" in refuse(b"l\0\0\0\1" * 100_000 + b"N")
    assert "nested deeper" in refuse(b"Xp" * 100_000 + b"N")


def test_a_result_over_the_limit_is_refused_before_it_is_built() -> None:
    for value in (b"x" * LIMIT, "x" * LIMIT, list(range(LIMIT))):
        with pytest.raises(SandboxFrameError, match="needs more than the limit"):
            encode(value, nonce=NONCE, limit_bytes=LIMIT)


def test_an_int_over_its_cap_is_refused_on_both_sides() -> None:
    with pytest.raises(SandboxFrameError, match="int of"):
        encode(1 << (8 * 70_000), nonce=NONCE, limit_bytes=LIMIT)
    assert "int of" in refuse(b"I" + struct.pack("!I", 70_000) + b"\1" * 70_000)


def test_every_truncation_and_every_extra_byte_is_refused() -> None:
    frame = encode(
        {"a": [1, 2.0, b"x", {3}], "b": dt.date(2020, 1, 1)},
        nonce=NONCE,
        limit_bytes=LIMIT,
    )
    for size in range(len(frame)):
        with pytest.raises(SandboxFrameError):
            decode(frame[:size], nonce=NONCE, limit_bytes=LIMIT)
        payload = frame[26:size]
        refuse(payload)
    with pytest.raises(SandboxFrameError):
        decode(frame + b"N", nonce=NONCE, limit_bytes=LIMIT)
    assert "follow the result" in refuse(b"NN")


def test_a_wrong_nonce_is_refused() -> None:
    frame = encode(1, nonce=b"x" * 16, limit_bytes=LIMIT)
    with pytest.raises(SandboxFrameError, match="nonce"):
        decode(frame, nonce=NONCE, limit_bytes=LIMIT)


def test_a_frame_over_the_limit_is_not_looked_at() -> None:
    with pytest.raises(SandboxFrameError, match="limit 10"):
        decode(encode(1, nonce=NONCE, limit_bytes=LIMIT), nonce=NONCE, limit_bytes=10)


@pytest.mark.parametrize("tag", [b"l", b"t", b"S", b"Z", b"d", b"s", b"b", b"I"])
def test_a_huge_count_or_length_is_refused_at_once(tag: bytes) -> None:
    refuse(tag + b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"S\0\0\0\1l\0\0\0\0", "hashed"),
        (b"d\0\0\0\1l\0\0\0\0N", "hashed"),
        (b"S\0\0\0\2NN", "repeats a key"),
        (b"S\0\0\0\2T" + b"i" + struct.pack("!q", 1), "repeats a key"),
        (b"s\0\0\0\1\xff", "UTF-8"),
        (b"?", "unknown tag"),
        (b"X?N", "unknown type code"),
        (b"", "ends in the middle"),
    ],
)
def test_malformed_nodes_are_named(payload: bytes, reason: str) -> None:
    assert reason in refuse(payload)


def test_an_unknown_frame_kind_is_refused() -> None:
    assert "unknown frame kind" in refuse(b"N", kind=9)


def test_keys_that_collide_on_purpose_are_refused() -> None:
    prime = 2**61 - 1  # hash(n * prime) == 0 for every n
    keys = b"".join(
        b"I" + struct.pack("!I", 12) + (n * prime).to_bytes(12, "big", signed=True)
        for n in range(1, 5001)
    )
    assert "collide" in refuse(b"S" + struct.pack("!I", 5000) + keys)


def chain(bits: int) -> list[int]:
    """Return integers of distinct hashes, the last of which walk along the first.

    In a dict of `2**bits` slots, `slot * 5 + 1` leads from each of the first to the
    next one; the others have low bits of zero and enter that walk near its start.
    """
    mask = (1 << bits) - 1
    walk, slot = {}, 0
    for step in range(int(0.56 * (mask + 1))):
        walk[slot] = step
        slot = (5 * slot + 1) & mask
    late: list[int] = []
    number = 0
    while len(late) < mask // 10:
        number += 1
        rest, slot = number << bits, 0
        while rest and slot in walk:
            rest >>= 5
            slot = (5 * slot + rest + 1) & mask
        if walk.get(slot, mask) < len(walk) // 2:
            late.append(number << bits)
    return [*walk, *late]


def table_of(tag: bytes, keys: list[int]) -> bytes:
    items = b"".join(
        b"i" + struct.pack("!q", key) + b"N" * (tag == b"d") for key in keys
    )
    return tag + struct.pack("!I", len(keys)) + items


def test_keys_that_share_a_walk_and_no_hash_are_refused_in_time_they_paid_for() -> None:
    keys = chain(16)
    frame = frame_of(table_of(b"d", keys))
    began = time.thread_time()
    with pytest.raises(SandboxFrameError, match="collide, as if"):
        decode(frame, nonce=NONCE, limit_bytes=LIMIT)
    spent = time.thread_time() - began
    began = time.thread_time()
    honest = decode(
        frame_of(table_of(b"d", list(range(len(keys))))), nonce=NONCE, limit_bytes=LIMIT
    )
    # Without a bound it is some eighty times; a budget in seconds bounds it here.
    assert spent < 10 * (time.thread_time() - began) + 1
    assert honest == dict.fromkeys(range(len(keys)))


def test_the_budget_is_one_for_all_tables_of_a_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_frame_tables, "PER_KEY_S", 0)
    monkeypatch.setattr(_frame_tables, "PER_HASHING", 0)
    keys = table_of(b"d", chain(12))
    assert "collide" in refuse(
        b"l" + struct.pack("!I", 1000) + keys * 1000, limit=1 << 26
    )


@pytest.mark.parametrize(
    "keys",
    [
        list(range(100_000)),
        [number << 16 for number in range(40_000)],
        [number << 32 for number in range(40_000)],
        [uuid.UUID(int=number) for number in range(5_000)],
        [f"key {number}" for number in range(5_000)],
        [(number, Decimal(number) / 7) for number in range(5_000)],
    ],
    ids=["ints", "pages", "words", "uuids", "texts", "pairs"],
)
def test_large_tables_of_honest_keys_come_back_in_their_order(
    keys: list[object],
) -> None:
    frame = encode(dict.fromkeys(keys, 1), nonce=NONCE, limit_bytes=1 << 24)
    table = decode(frame, nonce=NONCE, limit_bytes=1 << 24)
    assert isinstance(table, dict)
    assert list(table.items()) == [(key, 1) for key in keys]
    for kind in (set, frozenset):
        frame = encode(kind(keys), nonce=NONCE, limit_bytes=1 << 24)
        back = decode(frame, nonce=NONCE, limit_bytes=1 << 24)
        assert type(back) is kind
        assert back == kind(keys)


@pytest.mark.parametrize("tag", [b"S", b"Z", b"d"])
@pytest.mark.parametrize("count", [10, 5_000])
def test_a_repeated_key_is_refused_in_tables_of_any_size(
    tag: bytes, count: int
) -> None:
    assert "repeats" in refuse(table_of(tag, [*range(count), 3]))


def test_too_many_sets_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frame_tables, "MAX_SETS_AND_DICTS", 10)
    assert "sets and dicts" in refuse(b"l\0\0\0\14" + b"S\0\0\0\0" * 12)


def test_too_many_items_are_refused_on_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_frame_reader, "MAX_NODES", 10)
    assert "more than" in refuse(b"l\0\0\0\14" + b"N" * 12)
    many = [None] * (_frame_types.MAX_NODES + 1)
    with pytest.raises(SandboxFrameError, match="items"):
        encode(many, nonce=NONCE, limit_bytes=1 << 30)


@pytest.mark.parametrize(
    "plain",
    [
        (b"D", (2024, 13, 1, 0, 0, 0, 0, 0, None)),
        (b"D", (2024, 1, 1, 0, 0, 0, 0, 0, 10**30)),
        (b"D", (2024, 1, 1, 0, 0, 0, 0, 0, "UTC")),
        (b"D", (2024.0, 1, 1, 0, 0, 0, 0, 0, None)),
        (b"D", (1,)),
        (b"D", None),
        (b"a", (0, 0, 0)),
        (b"a", (10**300, 1, 1)),
        (b"m", (25, 0, 0, 0, 0, None)),
        (b"e", (10**18, 0, 0)),
        (b"c", "1_000"),
        (b"c", "\u0661"),
        (b"c", "1E99999999999999999999"),
        (b"c", "1" * 70_000),
        (b"c", 1),
        (b"p", b"x"),
        (b"u", b"short"),
        (b"n", ("<f8", (2,), b"x" * 15)),
        (b"n", ("|O", (1,), b"x" * 8)),
        (b"n", ("<f8,<f8", (1,), b"x" * 16)),
        (b"n", ("<f8", (-1,), b"")),
        (b"n", ("<f8", (2**62, 2**62, 0), b"")),
        (b"n", ("<U0", (2**40,), b"")),
        (b"n", ("<f8", (1,) * 40, b"x" * 8)),
        (b"W", b"not arrow"),
        (b"W", 1),
        (b"P", (b"", [], None, [], 10**12)),
        (b"L", b""),
    ],
    ids=lambda plain: repr(plain)[:40],
)
def test_a_hostile_plain_form_is_refused(plain: tuple[bytes, object]) -> None:
    code, value = plain
    node = encode(value, nonce=NONCE, limit_bytes=LIMIT)[26:]
    refuse(b"X" + code + node)


def test_a_key_that_cannot_be_hashed_by_its_value_is_refused() -> None:
    node = encode(Decimal("sNaN"), nonce=NONCE, limit_bytes=LIMIT)[26:]
    assert "hashed" in refuse(b"S\0\0\0\1" + node)


def test_a_pickle_is_not_a_frame() -> None:
    with pytest.raises(SandboxFrameError):
        decode(pickle.dumps([1]), nonce=NONCE, limit_bytes=LIMIT)
    assert round_trip(pickle.dumps([1])) == pickle.dumps([1])


class RudeError(Exception):
    def __str__(self) -> NoReturn:
        raise SystemExit(3)


class TextSubclassError(Exception):
    def __str__(self) -> str:
        return LyingText("honest")


def raised(error: BaseException) -> RaisedException:
    try:
        raise error  # noqa: TRY301 - the traceback is under test
    except BaseException as caught:  # noqa: BLE001 - any kind may be encoded
        frame = encode_exception(caught, nonce=NONCE, limit_bytes=LIMIT)
    back = decode(frame, nonce=NONCE, limit_bytes=LIMIT)
    assert isinstance(back, RaisedException)
    return back


def test_an_exception_travels_as_three_texts() -> None:
    back = raised(KeyError("a"))
    assert (back.type_name, back.text) == ("KeyError", "'a'")
    assert "Traceback" in back.traceback_text
    assert "raise error" in back.traceback_text


def test_a_str_that_raises_is_survived() -> None:
    back = raised(RudeError())
    assert back.type_name.endswith("RudeError")
    assert "__str__ raised SystemExit" in back.text
    assert raised(TextSubclassError()).text == "honest"


def test_an_exception_always_fits_its_limit() -> None:
    frame = encode_exception(ValueError("é" * 10**6), nonce=NONCE, limit_bytes=3000)
    assert len(frame) <= 3000
    back = decode(frame, nonce=NONCE, limit_bytes=3000)
    assert isinstance(back, RaisedException)
    assert "bytes cut" in back.text


def test_an_exception_frame_of_other_nodes_is_refused() -> None:
    assert "other than text" in refuse(b"NNN", kind=1)
    refuse(b"N", kind=1)


@pytest.mark.once
def test_reading_hostile_frames_holds_little_memory() -> None:
    import tracemalloc

    size = 1 << 16
    frames = [
        frame_of(b"l" + struct.pack("!I", size - 5) + b"N" * (size - 6)),
        frame_of(b"l\0\0\xff\xff" * 12_000),
        frame_of((b"S\0\0\0\0" * (size // 5)).join((b"l\0\0\xff\xff", b""))),
    ]
    tracemalloc.start()
    try:
        for frame in frames:
            with pytest.raises(SandboxFrameError):
                decode(frame, nonce=NONCE, limit_bytes=LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * size
