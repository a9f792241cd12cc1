"""Any plain value survives the round trip; any bytes end in one named error."""

from __future__ import annotations

import datetime as dt
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frames import (
    RaisedException,
    decode,
    encode,
    encode_exception,
)

NONCE = b"f" * 16
LIMIT = 1 << 20
HEADER = 26

zones = st.timedeltas(
    min_value=dt.timedelta(hours=-23), max_value=dt.timedelta(hours=23)
).map(dt.timezone)
keys = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(timezones=st.one_of(st.none(), zones)),
    st.times(timezones=st.one_of(st.none(), zones)),
    st.timedeltas(),
    st.uuids(),
)
hashable = st.recursive(
    keys,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple), st.frozensets(inner, max_size=4)
    ),
    max_leaves=8,
)
values = st.recursive(
    hashable,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(hashable, inner, max_size=5),
        st.sets(hashable, max_size=5),
    ),
    max_leaves=20,
)
lengths = st.integers(0, 2**32 - 1).map(lambda size: struct.pack("!I", size))
small = st.integers(0, 4).map(lambda size: struct.pack("!I", size))
fragments = st.one_of(
    st.sampled_from([bytes((tag,)) for tag in b"NTFiIfsbltSZdX"]),
    st.sampled_from([bytes((code,)) for code in b"DamecpungWPL"]),
    small,
    lengths,
    st.binary(max_size=9),
)


def read(payload: bytes, kind: int) -> None:
    head = b"LCF1" + bytes((len(NONCE),)) + NONCE + bytes((kind,))
    frame = head + struct.pack("!I", len(payload)) + payload
    try:
        back = decode(frame, nonce=NONCE, limit_bytes=LIMIT)
    except SandboxFrameError:
        return
    # What was accepted is plain enough to be written again.
    if not isinstance(back, RaisedException):
        encode(back, nonce=NONCE, limit_bytes=64 * LIMIT)


@settings(deadline=None, max_examples=40)
@given(values)
def test_any_plain_value_survives_the_round_trip(value: object) -> None:
    frame = encode(value, nonce=NONCE, limit_bytes=LIMIT)
    assert decode(frame, nonce=NONCE, limit_bytes=LIMIT) == value


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=400), st.integers(0, 2))
def test_any_bytes_end_in_one_named_error(payload: bytes, kind: int) -> None:
    read(payload, kind)


@settings(deadline=None, max_examples=40)
@given(st.lists(fragments, max_size=40).map(b"".join), st.integers(0, 1))
def test_any_soup_of_nodes_ends_in_one_named_error(payload: bytes, kind: int) -> None:
    read(payload, kind)


@settings(deadline=None, max_examples=40)
@given(values, st.data())
def test_any_damaged_frame_ends_in_one_named_error(
    value: object, data: st.DataObject
) -> None:
    payload = bytearray(encode(value, nonce=NONCE, limit_bytes=LIMIT)[HEADER:])
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(
            st.integers(0, 255)
        )
    read(bytes(payload), 0)


@settings(deadline=None, max_examples=40)
@given(st.binary(max_size=60))
def test_any_bytes_without_a_header_end_in_one_named_error(frame: bytes) -> None:
    with pytest.raises(SandboxFrameError):
        decode(frame, nonce=NONCE, limit_bytes=LIMIT)


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(), max_size=500), st.integers(200, 2000))
def test_any_exception_fits_any_limit(text: str, limit: int) -> None:
    frame = encode_exception(ValueError(text), nonce=NONCE, limit_bytes=limit)
    back = decode(frame, nonce=NONCE, limit_bytes=limit)
    assert isinstance(back, RaisedException)
    assert back.type_name == "ValueError"


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None)
@given(values)
def test_five_thousand_values_survive_the_round_trip(value: object) -> None:
    frame = encode(value, nonce=NONCE, limit_bytes=LIMIT)
    assert decode(frame, nonce=NONCE, limit_bytes=LIMIT) == value


@pytest.mark.slow
@settings(max_examples=20_000, deadline=None)
@given(st.lists(fragments, max_size=60).map(b"".join), st.integers(0, 1))
def test_twenty_thousand_soups_end_in_one_named_error(
    payload: bytes, kind: int
) -> None:
    read(payload, kind)
