"""Move Arrow tables and data frames as Arrow IPC, and read hostile IPC safely.

A reader of Arrow IPC that trusts its input can be made to unpickle (extension
types), to allocate without bound (compressed buffers, run-end encoding, columns
that need no bytes per row) and to read out of bounds (unchecked offsets). So the
stream is looked at before and after pyarrow parses it, and only types whose rows
cost bytes are accepted. Data frames travel as a table plus their labels; the
``pandas`` metadata of the stream, text of the other side, is never evaluated.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Any, Final

from lazycore.sandbox._errors import SandboxFrameError

if TYPE_CHECKING:
    import pyarrow as pa

# Releases before this one unpickle extension types while reading a schema
# (CVE-2023-47248).
_FIRST_SAFE_PYARROW: Final = (14, 0, 1)
# No column, nested field or index may outnumber this share of the limit.
_CELLS_PER_LIMIT_BYTE: Final = 4
_MAX_COLUMNS: Final = 10_000
# Restored by name: their construction runs no text of the other side.
_NULLABLE_DTYPES: Final = frozenset(
    {"boolean", "string", "Float32", "Float64"}
    | {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
)


def plain(value: object) -> tuple[bytes, object] | None:
    """Return code and plain form of a table or data frame, else None."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(value, arrow.Table | arrow.RecordBatch):
        if isinstance(value, arrow.RecordBatch):
            value = arrow.Table.from_batches([value])
        return b"W", _ipc_bytes(value)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return b"P", _pandas_parts(value)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(value, polars.DataFrame):
        _require_pyarrow("a polars data frame")
        return b"L", _ipc_bytes(value.to_arrow())
    return None


def rebuild(code: bytes, value: object, *, limit_bytes: int) -> object:
    """Rebuild a table or data frame from a plain form of unknown origin."""
    try:
        if code == b"W":
            return _table(value, limit_bytes=limit_bytes)
        if code == b"L":
            table = _table(value, limit_bytes=limit_bytes)
            return _require("polars").from_arrow(table)
        return _pandas_frame(value, limit_bytes=limit_bytes)
    except SandboxFrameError:
        raise
    # Three libraries raise what they like about bytes of an enemy's choice.
    except Exception as error:
        raise SandboxFrameError(
            f"malformed table in a result frame: {type(error).__name__}"
        ) from error


def _require(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise SandboxFrameError(
            f"the result is a {name} data frame and {name} is not installed on this "
            f"side: pip install {name}"
        ) from error


def _require_pyarrow(what: str) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.ipc
    except ImportError as error:
        raise SandboxFrameError(
            f"{what} crosses the sandbox as Arrow and pyarrow is not installed: "
            "pip install pyarrow"
        ) from error
    version = tuple(int(part) for part in pa.__version__.split(".")[:3])
    if version < _FIRST_SAFE_PYARROW:
        raise SandboxFrameError(
            f"pyarrow {pa.__version__} runs code while it reads a schema "
            "(CVE-2023-47248): pip install 'pyarrow>=14.0.1'"
        )
    return pa


def _ipc_bytes(table: pa.Table) -> bytes:
    arrow = _require_pyarrow("a table")
    for field in table.schema:
        _check_type(arrow, field.name, field.type, nested=False)
    sink = arrow.BufferOutputStream()
    bare = table.replace_schema_metadata(None)
    options = arrow.ipc.IpcWriteOptions(compression=None)
    with arrow.ipc.new_stream(sink, bare.schema, options=options) as writer:
        writer.write_table(bare)
    return bytes(sink.getvalue())


def _table(value: object, *, limit_bytes: int) -> pa.Table:
    if type(value) is not bytes:
        raise SandboxFrameError("malformed table in a result frame")
    arrow = _require_pyarrow("a table")
    # A registered extension type runs its own parser, possibly pickle, inside
    # pyarrow's; the key must be in the bytes for that to happen.
    if b"ARROW:extension" in value:
        raise SandboxFrameError("a table with extension types never travels")
    _refuse_compression(arrow, value)
    with arrow.ipc.open_stream(value) as stream:
        schema = stream.schema
        if len(schema) > _MAX_COLUMNS:
            raise SandboxFrameError(f"a table of {len(schema)} columns")
        for field in schema:
            _check_type(arrow, field.name, field.type, nested=False)
        table = stream.read_all()
    table.validate(full=True)
    if table.num_rows * max(1, len(schema)) > limit_bytes * _CELLS_PER_LIMIT_BYTE:
        raise SandboxFrameError(f"a table of {table.num_rows} rows in few bytes")
    return table


def _check_type(arrow: Any, name: str, kind: Any, *, nested: bool) -> None:
    """Accept only types whose every row costs bytes of the frame."""
    types = arrow.types
    if types.is_dictionary(kind) and not nested:  # nested ones inflate when read
        _check_type(arrow, name, kind.value_type, nested=True)
    elif types.is_struct(kind) and kind.num_fields:
        for index in range(kind.num_fields):
            _check_type(arrow, name, kind.field(index).type, nested=True)
    elif (
        types.is_list(kind)
        or types.is_large_list(kind)
        or (types.is_fixed_size_list(kind) and kind.list_size)
    ):
        _check_type(arrow, name, kind.value_type, nested=True)
    elif not (
        (types.is_null(kind) and not nested)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_temporal(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or (types.is_fixed_size_binary(kind) and kind.byte_width)
    ):
        raise SandboxFrameError(
            f"column {name!r} of Arrow type {str(kind)[:80]!r} cannot leave the "
            "sandbox: cast it to numbers, text, dates, or lists of these"
        )


def _refuse_compression(arrow: Any, stream: bytes) -> None:
    """Refuse record batches whose bodies inflate when read.

    Arrow's ``Message.fbs``: Message { version, header_type, header, ... },
    RecordBatch { length, nodes, buffers, compression, ... },
    DictionaryBatch { id, data, isDelta }. pyarrow has verified the flatbuffer by
    the time it hands out its metadata.
    """
    for message in arrow.ipc.MessageReader.open_stream(stream):
        if message.type == "schema":
            continue
        if message.type not in {"record batch", "dictionary"}:
            raise SandboxFrameError("a table holds a message of another kind")
        buffer = bytes(message.metadata)
        header = _table_field(buffer, _follow(buffer, 0), 2)
        if header is None:
            raise SandboxFrameError("a table holds an empty message")
        batch = _follow(buffer, header)
        if message.type == "dictionary":
            inner = _table_field(buffer, batch, 1)
            if inner is None:
                raise SandboxFrameError("a table holds an empty dictionary")
            batch = _follow(buffer, inner)
        if _table_field(buffer, batch, 3) is not None:
            raise SandboxFrameError("a table with compressed buffers never travels")


def _follow(buffer: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", buffer, at)[0])


def _table_field(buffer: bytes, table: int, index: int) -> int | None:
    """Return where field ``index`` of a flatbuffer table lies, None if absent."""
    vtable = table - int(struct.unpack_from("<i", buffer, table)[0])
    slot = 4 + 2 * index
    if vtable < 0 or slot + 2 > struct.unpack_from("<H", buffer, vtable)[0]:
        return None
    offset = int(struct.unpack_from("<H", buffer, vtable + slot)[0])
    return table + offset if offset else None


def _pandas_parts(frame: Any) -> tuple[object, ...]:
    arrow = _require_pyarrow("a pandas data frame")
    pandas = sys.modules["pandas"]
    default = pandas.RangeIndex(len(frame))
    index = frame.index
    keep_index = not (
        isinstance(index, pandas.RangeIndex)
        and index.equals(default)
        and index.name is None
    )
    levels = list(range(index.nlevels)) if keep_index else []
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    columns += [index.get_level_values(level) for level in levels]
    arrays = []
    for series in columns:
        try:
            array = arrow.array(series, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError) as error:
            raise SandboxFrameError(
                f"a pandas column of dtype {series.dtype} has no Arrow type: "
                "convert it to numbers, text or dates"
            ) from error
        if isinstance(array, arrow.ChunkedArray):
            array = array.combine_chunks()
        arrays.append(array)
    names = [str(at) for at in range(len(arrays))]
    table = arrow.Table.from_arrays(arrays, names=names)
    dtypes = [_dtype_name(pandas, series.dtype) for series in columns]
    labels = list(frame.columns)
    index_names = list(index.names) if keep_index else None
    return (_ipc_bytes(table), labels, index_names, dtypes, len(frame))


def _dtype_name(pandas: Any, dtype: Any) -> str | None:
    if isinstance(dtype, pandas.ArrowDtype):
        return "arrow"
    name = str(dtype)
    return name if name in _NULLABLE_DTYPES else None


def _pandas_frame(value: object, *, limit_bytes: int) -> object:
    if not isinstance(value, tuple) or len(value) != 5:
        raise SandboxFrameError("malformed data frame in a result frame")
    data, labels, index_names, dtypes, rows = value
    table = _table(data, limit_bytes=limit_bytes)
    if (
        not isinstance(labels, list)
        or not isinstance(dtypes, list)
        or not (index_names is None or isinstance(index_names, list))
        or len(dtypes) != len(table.schema)
        or len(labels) + len(index_names or ()) != len(table.schema)
        or type(rows) is not int
        or not 0 <= rows <= limit_bytes * _CELLS_PER_LIMIT_BYTE
        or (len(table.schema) and rows != table.num_rows)
    ):
        raise SandboxFrameError("malformed data frame in a result frame")
    pandas = _require("pandas")
    columns = [
        _series(pandas, table.column(at), dtype) for at, dtype in enumerate(dtypes)
    ]
    width = len(labels)
    frame = pandas.DataFrame(
        dict(enumerate(columns[:width])), index=pandas.RangeIndex(rows)
    )
    frame.columns = pandas.Index(labels, tupleize_cols=True) if labels else []
    if index_names is not None:
        levels = columns[width:]
        frame.index = (
            pandas.Index(levels[0], name=index_names[0])
            if len(levels) == 1
            else pandas.MultiIndex.from_arrays(levels, names=index_names)
        )
    return frame


def _series(pandas: Any, column: Any, dtype: object) -> Any:
    if dtype == "arrow":
        return column.to_pandas(types_mapper=pandas.ArrowDtype)
    series = column.to_pandas()
    if dtype in _NULLABLE_DTYPES:
        return series.astype(dtype)
    return series
