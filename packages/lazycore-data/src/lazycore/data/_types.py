"""Know per Arrow type what the running Polars makes of it, by asking Polars once.

Types that Polars reads wrongly or panics on are decided here, before Polars sees
them; every other type is tried once on a single null, and the answer is kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazycore.data._libraries import library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Outcome",
    "cause",
    "change",
    "has_view",
    "is_panic",
    "outcome",
    "repaired",
    "same_family",
    "unviewed",
    "walk",
]

_FIXED_OFFSET = re.compile(r"^[+-]\d{2}:?\d{2}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of an Arrow type in the running Polars.

    Attributes:
        error: Why Polars cannot hold it; empty when it can.
        fix: What to do about the error or the change.
        target: The Arrow type that Polars gives back, None on error.
        changed: How the target differs in more than layout.
        lossy: Whether the change cannot be undone from the result alone.
        repair: The Arrow type to cast to first, None when none is needed.
    """

    error: str = ""
    fix: str = ""
    target: Any = None
    changed: str = ""
    lossy: bool = False
    repair: Any = None


_outcomes: dict[Any, Outcome] = {}


def _children(kind: Any) -> Iterator[Any]:
    pa = library("pyarrow")
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        yield kind.storage_type
    elif types.is_dictionary(kind):
        yield kind.value_type
    elif types.is_map(kind):
        yield from (kind.key_type, kind.item_type)
    elif types.is_struct(kind):
        yield from (kind.field(k).type for k in range(kind.num_fields))
    elif (
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
    ):
        yield kind.value_type


def walk(kind: Any) -> Iterator[Any]:
    """Yield a type and every type inside it."""
    yield kind
    for child in _children(kind):
        yield from walk(child)


def has_view(kind: Any) -> bool:
    """Tell whether a type holds string or binary views at any depth."""
    return any("_view" in str(part) for part in walk(kind))


def _refusal(kind: Any) -> tuple[str, str]:
    """Return why Polars must not see a type, and what to do instead."""
    pa = library("pyarrow")
    name = str(kind)
    if name.startswith("decimal256"):
        return "Polars panics on decimal256", "cast it to decimal128(38, scale)"
    if name.startswith(("list_view", "large_list_view")):
        return "Polars cannot read list views", "cast it to a large_list"
    if name.startswith("run_end_encoded"):
        return "Polars cannot read run-end encoding", "decode it with pyarrow.compute"
    if name.startswith("month_day_nano"):
        return (
            "Polars cannot hold calendar intervals",
            "convert it to a duration or to three integer columns",
        )
    if pa.types.is_struct(kind):
        names = [kind.field(k).name for k in range(kind.num_fields)]
        twice = next((n for n in names if names.count(n) > 1), None)
        if twice is not None:
            text = f"a struct has two fields named {twice!r}: Polars would drop one"
            return text, "rename one"
    if pa.types.is_timestamp(kind) and kind.tz and _FIXED_OFFSET.match(kind.tz):
        return (
            f"Polars knows no fixed offset such as {kind.tz}",
            "cast it to the zone UTC: the instants stay the same",
        )
    return "", ""


def repaired(kind: Any) -> Any:
    """Return the type that a column must be cast to before Polars may see it.

    Polars reads 32- and 64-bit decimals as garbage through several doors
    (polars#22946), and wraps around where it multiplies times of coarser units: both
    are cast by pyarrow at any depth, which raises where a value does not fit.
    """
    pa = library("pyarrow")
    types = pa.types
    name = str(kind)
    if name.startswith(("decimal32(", "decimal64(")):
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if types.is_duration(kind) and kind.unit == "s":
        return pa.duration("ms")
    if types.is_time64(kind):
        return pa.time64("ns")
    return _rebuilt(kind, repaired)


def unviewed(kind: Any) -> Any:
    """Return a type with large text and bytes in place of views, at any depth."""
    pa = library("pyarrow")
    flat = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    return flat.get(str(kind)) or _rebuilt(kind, unviewed)


def _rebuilt(kind: Any, change: Callable[[Any], Any]) -> Any:
    """Return a nested type over changed children; any other type as it is."""
    pa = library("pyarrow")
    types = pa.types
    children = list(_children(kind))
    new = [change(child) for child in children]
    if new == children or isinstance(kind, pa.BaseExtensionType):
        return kind
    if types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, new[0], kind.ordered)
    if types.is_struct(kind):
        fields = [kind.field(k).with_type(t) for k, t in enumerate(new)]
        return pa.struct(fields)
    if types.is_map(kind):
        return pa.map_(new[0], new[1])
    if types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(new[0]), kind.list_size)
    field = kind.value_field.with_type(new[0])
    return pa.large_list(field) if types.is_large_list(kind) else pa.list_(field)


def cause(error: BaseException) -> str:
    """Return the first line of a foreign error."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def is_panic(error: BaseException) -> bool:
    """Tell whether an exception is a Rust panic: a BaseException by design."""
    return type(error).__name__ == "PanicException"


def same_family(before: Any, after: Any) -> bool:  # noqa: C901 - a decision table
    """Tell whether two types differ in layout alone: offsets, views, widths."""
    pa = library("pyarrow")
    types = pa.types
    if before == after:
        return True
    for family in ("string", "binary"):
        names = {family, f"large_{family}", f"{family}_view"}
        if {str(before), str(after)} <= names:
            return True
    if isinstance(before, pa.BaseExtensionType) or isinstance(
        after, pa.BaseExtensionType
    ):
        return False
    if types.is_decimal(before) and types.is_decimal(after):
        return bool((before.precision, before.scale) == (after.precision, after.scale))
    lists = (types.is_list, types.is_large_list)
    if any(t(before) for t in lists) and any(t(after) for t in lists):
        return same_family(before.value_type, after.value_type)
    if types.is_fixed_size_list(before) and types.is_fixed_size_list(after):
        return before.list_size == after.list_size and same_family(
            before.value_type, after.value_type
        )
    if types.is_struct(before) and types.is_struct(after):
        pairs = zip(before, after, strict=False)
        return before.num_fields == after.num_fields and all(
            a.name == b.name and same_family(a.type, b.type) for a, b in pairs
        )
    if types.is_map(before) and types.is_map(after):
        return same_family(before.key_type, after.key_type) and same_family(
            before.item_type, after.item_type
        )
    if types.is_dictionary(before) and types.is_dictionary(after):
        return before.ordered == after.ordered and same_family(
            before.value_type, after.value_type
        )
    return False


def change(before: Any, after: Any) -> tuple[str, bool, str]:
    """Return how two types differ in meaning, whether it is lossy, and the fix."""
    types = library("pyarrow").types
    if same_family(before, after):
        return "", False, ""
    for part in walk(before):
        if types.is_dictionary(part) and part.ordered:
            text = "the order of the categories is lost"
            return text, True, "use categories='enum'"
    text = f"{before} becomes {after}"
    widened = (
        (types.is_time(before) and types.is_time(after))
        or (types.is_duration(before) and types.is_duration(after))
        or (types.is_float16(before) and types.is_floating(after))
        or (
            types.is_timestamp(before)
            and types.is_timestamp(after)
            and before.tz == after.tz
        )
    )
    return text, not widened, "" if widened else "a receipt gives the original back"


def _decimals_hold() -> bool:
    """Ask the running Polars once whether it keeps a 128-bit decimal exactly."""
    from decimal import Decimal

    pa, pl = library("pyarrow"), library("polars")
    value = Decimal("12345678901234567890.12")
    table = pa.table({"c": pa.array([value], pa.decimal128(30, 2))})
    return bool(pl.from_arrow(table).get_column("c").to_list() == [value])


def _one_null(kind: Any) -> Any:
    """Return one row of a type without a value.

    pyarrow 16 makes nulls of extensions over structs that end the interpreter, so
    these are built from their storage.
    """
    pa = library("pyarrow")
    if not any(isinstance(part, pa.BaseExtensionType) for part in walk(kind)):
        return pa.nulls(1, kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _one_null(kind.storage_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(k) for k in range(kind.num_fields)]
        rows = [_one_null(field.type) for field in fields]
        return pa.StructArray.from_arrays(rows, fields=fields)
    if pa.types.is_fixed_size_list(kind):
        values = pa.concat_arrays([_one_null(kind.value_type)] * kind.list_size)
        return pa.FixedSizeListArray.from_arrays(values, type=kind)
    return pa.nulls(1, kind)


def _ask(kind: Any) -> Outcome:
    from lazycore.data._columns import export

    pa, pl = library("pyarrow"), library("polars")
    for part in walk(kind):
        error, fix = _refusal(part)
        if error:
            return Outcome(error=error, fix=fix)
    target = repaired(kind)
    decimals = any(pa.types.is_decimal(part) for part in walk(target))
    if decimals and not _decimals_hold():
        return Outcome(
            error="this Polars turns decimals into floats", fix="upgrade Polars"
        )
    try:
        frame = pl.from_arrow(pa.table({"c": _one_null(target)}), rechunk=False)
        got = export(frame.get_column("c")).type
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return Outcome(
            error=f"this Polars cannot hold {kind}: {cause(error)}",
            fix="cast the column to a type that Polars knows",
        )
    changed, lossy, fix = change(target, got)
    return Outcome(
        target=got,
        changed=changed,
        lossy=lossy,
        fix=fix,
        repair=None if target == kind else target,
    )


def outcome(kind: Any) -> Outcome:
    """Return what the running Polars makes of an Arrow type, asked once per type."""
    try:
        found = _outcomes.get(kind)
    except TypeError:  # an extension type that compares by value and has no hash
        return _ask(kind)
    if found is None:
        found = _outcomes[kind] = _ask(kind)
    return found
