"""Arrays, tables and data frames cross the border; hostile Arrow streams do not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lazycore.sandbox._errors import SandboxFrameError
from lazycore.sandbox._frames import decode, encode

NONCE = b"n" * 16
LIMIT = 1 << 22


def round_trip(value: object) -> Any:
    frame = encode(value, nonce=NONCE, limit_bytes=LIMIT)
    return decode(frame, nonce=NONCE, limit_bytes=LIMIT)


def refuse_stream(data: bytes, *, limit: int = LIMIT) -> str:
    frame = bytearray(encode(data, nonce=NONCE, limit_bytes=LIMIT))
    payload = b"XW" + bytes(frame[26:])
    frame[22:26] = len(payload).to_bytes(4, "big")
    with pytest.raises(SandboxFrameError) as caught:
        decode(bytes(frame[:26]) + payload, nonce=NONCE, limit_bytes=limit)
    return str(caught.value)


@pytest.mark.parametrize(
    "dtype", ["?", "i1", ">i4", "u8", "f2", "f8", "c16", "M8[ns]", "m8[s]", "S3", "U2"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_an_array_keeps_dtype_shape_and_items(
    dtype: str, shape: tuple[int, ...]
) -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    array = np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    back = round_trip(array)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    if shape:
        assert back.shape == shape
        back.flags.writeable = True


def test_a_strided_array_and_a_scalar_travel() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    array = np.arange(24).reshape(4, 6)[::2, ::-1]
    assert np.array_equal(round_trip(array), array)
    assert round_trip(np.float32(1.5)) == np.float32(1.5)
    assert type(round_trip(np.int16(3))) is np.int16


def test_an_array_of_objects_or_records_is_refused() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    for array in (np.array([object()]), np.zeros(2, dtype="i4,f8")):
        with pytest.raises(SandboxFrameError, match="cannot leave"):
            encode(array, nonce=NONCE, limit_bytes=LIMIT)


def test_items_that_numpy_would_choke_on_later_are_refused() -> None:
    pytest.importorskip("numpy", reason="numpy is not installed")
    for parts in (("|b1", (1,), b"\2"), ("<U1", (1,), b"\xff\xff\xff\x7f")):
        node = encode(parts, nonce=NONCE, limit_bytes=LIMIT)[26:]
        payload = b"Xn" + node
        head = encode(None, nonce=NONCE, limit_bytes=LIMIT)[:22]
        frame = head + len(payload).to_bytes(4, "big") + payload
        with pytest.raises(SandboxFrameError, match="array of"):
            decode(frame, nonce=NONCE, limit_bytes=LIMIT)


def test_a_table_of_many_types_comes_back_equal() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "s": pa.array(["a", None, ""]),
            "d": pa.array(["x", "y", "x"]).dictionary_encode(),
            "l": pa.array([[1], [], None]),
            "t": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
            "r": pa.array([{"a": 1}, None, {"a": 2}]),
            "n": pa.nulls(3),
        }
    )
    assert round_trip(table).equals(table)
    batch = table.to_batches()[0]
    assert round_trip(batch).equals(pa.table(batch))


def test_a_pandas_frame_keeps_labels_index_and_dtypes() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(
        {
            "a": [1, 2],
            7: ["x", None],
            ("t", 1): pd.array([1, None], dtype="Int64"),
            "w": pd.array([1, None], dtype=pd.ArrowDtype(__import__("pyarrow").int8())),
        },
        index=pd.Index([10, 20], name="key"),
    )
    back = round_trip(frame)
    pd.testing.assert_frame_equal(back, frame)
    plain = pd.DataFrame({"a": [1.5, 2.5]})
    pd.testing.assert_frame_equal(round_trip(plain), plain)
    empty = pd.DataFrame(index=pd.RangeIndex(3))
    assert round_trip(empty).shape == (3, 0)
    levels = plain.set_index(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
    pd.testing.assert_frame_equal(round_trip(levels), levels)
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    pd.testing.assert_frame_equal(round_trip(twice), twice)


def test_a_pandas_frame_of_objects_is_refused_by_name() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"a": [object(), 1]})
    with pytest.raises(SandboxFrameError, match="no Arrow type"):
        encode(frame, nonce=NONCE, limit_bytes=LIMIT)


def test_a_polars_frame_comes_back_equal() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = pl.DataFrame({"a": [1, 2], "s": ["x", None], "l": [[1], [2, 3]]})
    assert round_trip(frame).equals(frame)


def stream_of(table: Any, *, compression: str | None = None) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_a_compressed_table_is_refused_before_it_inflates() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    bomb = pa.table({"a": pa.array([0] * 4_000_000, pa.int64())})
    data = stream_of(bomb, compression="zstd")
    assert len(data) < LIMIT
    assert "compressed" in refuse_stream(data)
    words = pa.table({"d": pa.array(["x" * 100_000] * 3).dictionary_encode()})
    assert "compressed" in refuse_stream(stream_of(words, compression="zstd"))


def test_rows_that_cost_no_bytes_are_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    assert "rows in few bytes" in refuse_stream(
        stream_of(pa.table({"a": pa.nulls(10**9)}))
    )
    for column in (
        pa.array([[None] * 5]),
        pa.array([{}], pa.struct([])),
        pa.RunEndEncodedArray.from_arrays([10**9], [1]),
        pa.array([[]], pa.list_(pa.int8(), 0)),
        pa.array(["x"], pa.string_view()),
    ):
        assert "cannot leave" in refuse_stream(stream_of(pa.table({"a": column})))


def test_an_extension_type_is_refused_before_its_parser_runs() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    ran: list[bytes] = []

    base: Any = pa.ExtensionType

    class Trap(base):  # type: ignore[misc] # pyarrow is untyped
        def __init__(self) -> None:
            super().__init__(pa.int64(), "trap")

        def __arrow_ext_serialize__(self) -> bytes:
            return b"payload"

        @classmethod
        def __arrow_ext_deserialize__(cls, _storage: Any, data: bytes) -> Any:
            ran.append(data)
            return cls()

    pa.register_extension_type(Trap())
    try:
        column = pa.ExtensionArray.from_storage(Trap(), pa.array([1]))
        data = stream_of(pa.table({"a": column}))
        ran.clear()
        assert "extension" in refuse_stream(data)
        assert ran == []
    finally:
        pa.unregister_extension_type("trap")


def test_offsets_beyond_the_buffer_are_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    data = bytearray(stream_of(pa.table({"s": pa.array(["abcd", "efgh"])})))
    at = data.rindex(b"\4\0\0\0\10\0\0\0")
    data[at : at + 4] = b"\xff\xff\xff\x7f"
    assert "malformed table" in refuse_stream(bytes(data))


def test_every_flipped_byte_of_a_stream_is_survived() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    table = pa.table({"s": pa.array(["ab", None]), "i": pa.array([1, 2])})
    good = stream_of(table)
    head = encode(None, nonce=NONCE, limit_bytes=LIMIT)[:22]
    for at in range(0, len(good), 3):
        data = bytearray(good)
        data[at] ^= 0xFF
        node = encode(bytes(data), nonce=NONCE, limit_bytes=LIMIT)[26:]
        payload = b"XW" + node
        frame = head + len(payload).to_bytes(4, "big") + payload
        try:
            decode(frame, nonce=NONCE, limit_bytes=LIMIT)
        except SandboxFrameError:
            continue
