"""No array reaches a consumer that would crash on it, misread it or write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lazycore.data import HandoffError, check_dlpack, collate

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

# Expression over x (375 x 500 x 3 bytes) and ro (the same, read-only), and whether
# the array is safe to hand over.
HAZARDS = {
    "plain": ("x", True),
    "read-only": ("ro", False),
    "rows skipped": ("x[::2]", False),
    "flipped vertically": ("x[::-1]", False),
    "flipped horizontally": ("x[:, ::-1]", False),
    "channels reversed": ("x[..., ::-1]", False),
    "transposed": ("x.T", False),
    "cropped": ("x[10:20, 10:20]", False),
    "broadcast": ("np.broadcast_to(x[:1], (9, 500, 3))", False),
    "big-endian": ("x.astype('>i4')", False),
    "objects": ("np.array([None])", False),
    "datetimes": ("np.zeros(2, 'M8[s]')", False),
    "text": ("np.array(['a'])", False),
    "records": ("np.zeros(4, [('p', 'u1'), ('v', 'f4')])", False),
    "field of records": ("np.zeros(4, [('p', 'u1'), ('v', 'f4')])['v']", False),
    "unaligned": ("np.zeros(9, 'u1')[1:].view('f4')", False),
    "long double": ("np.zeros(2, np.longdouble)", False),
    "scalar array": ("np.array(1.0)", True),
    "no elements": ("np.zeros((0, 3))", True),
    "no elements, flipped": ("np.zeros((0, 3))[::-1]", True),
    "bool": ("np.ones(2, bool)", True),
    "uint16": ("np.ones(2, 'u2')", True),
    "float16": ("np.ones(2, 'f2')", True),
    "complex": ("np.ones(2, complex)", True),
    "list": ("[1, 2]", False),
    "bytes": ("b'12'", False),
}
TORCH_HAZARDS = {
    "plain tensor": ("torch.zeros(3)", True),
    "gradient": ("torch.zeros(3, requires_grad=True)", False),
    "sparse": ("torch.eye(3).to_sparse()", False),
    "conjugated": ("torch.ones(2, dtype=torch.complex64).conj()", False),
    "not contiguous": ("torch.zeros(3, 4).T", False),
    "expanded": ("torch.zeros(1, 3).expand(4, 3)", False),
}


@pytest.fixture
def scope() -> dict[str, Any]:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    x = np.zeros((375, 500, 3), "u1")
    ro = x.copy()
    ro.flags.writeable = False
    return {"np": np, "x": x, "ro": ro}


@pytest.mark.parametrize("name", HAZARDS)
def test_hazard_passes_safely_or_is_a_named_error(
    name: str, scope: dict[str, Any]
) -> None:
    expression, safe = HAZARDS[name]
    value = eval(expression, scope)
    if safe:
        assert check_dlpack(value) is value
    else:
        with pytest.raises(HandoffError, match="refused"):
            check_dlpack(value)


def test_a_reader_may_take_read_only_and_strided_arrays(scope: dict[str, Any]) -> None:
    check_dlpack(scope["ro"], writable=False)
    check_dlpack(scope["x"][::2], contiguous=False)
    with pytest.raises(HandoffError, match="negative stride"):
        check_dlpack(scope["x"][::-1], contiguous=False)
    check_dlpack(scope["x"], device="cpu")
    with pytest.raises(HandoffError, match="lies on cpu, not cuda"):
        check_dlpack(scope["x"], device="cuda")


@pytest.mark.slow
@pytest.mark.parametrize("name", [*HAZARDS, *TORCH_HAZARDS])
def test_torch_survives_every_array_that_passes_the_check(
    name: str, run_python: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    expression, safe = {**HAZARDS, **TORCH_HAZARDS}[name]
    done = run_python(
        "import numpy as np, torch\n"
        "from lazycore.data import check_dlpack, HandoffError\n"
        "x = np.zeros((375, 500, 3), 'u1'); ro = x.copy(); ro.flags.writeable = False\n"
        f"y = {expression}\n"
        "try:\n"
        "    check_dlpack(y)\n"
        "except HandoffError as error:\n"
        "    print('refused')\n"
        "else:\n"
        "    z = torch.from_dlpack(y); z.clone(); print('taken', tuple(z.shape))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("taken" if safe else "refused"), done.stdout


@pytest.mark.slow
def test_torch_aborts_on_a_flipped_picture_without_the_check(
    run_python: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if torch.__version__.split("+")[0] != "2.13.0":
        pytest.skip("torch is not installed in the version 2.13.0 that aborts")
    done = run_python(
        "import numpy as np, torch\n"
        "torch.from_dlpack(np.zeros((4, 5, 3), 'u1')[:, ::-1])"
    )
    assert done.returncode < 0


def test_collate_copies_into_one_aligned_array_and_reuses_out() -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    items = [np.full((2, 3), k, "f4") for k in range(5)]
    batch = collate(items)
    assert (batch.shape, batch.ctypes.data % 64) == ((5, 2, 3), 0)
    assert batch[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    out = np.empty((8, 2, 3), "f4")
    again = collate(items[:2], out)
    assert np.shares_memory(again, out)
    assert collate([item[:, ::-1] for item in items])[3, 0, 0] == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: collate([]), "empty batch"),
        (lambda np: collate([np.zeros(2), np.zeros(3)]), "item 1"),
        (lambda np: collate([np.zeros(2), np.zeros(2, "i4")]), "item 1"),
        (lambda np: collate([np.zeros(2)] * 3, np.zeros((2, 2))), "room for 2"),
        (lambda np: collate([np.zeros(2)], np.zeros((2, 3))), "out holds"),
        (lambda np: collate([np.zeros(2)], np.zeros((2, 2), "i4")), "out holds"),
        (lambda _: collate([[1, 2]]), "no __dlpack__"),
    ],
    ids=["empty", "shape", "dtype", "short out", "out shape", "out dtype", "a list"],
)
def test_collate_refuses_what_does_not_fit(make: Any, message: str) -> None:
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    with pytest.raises(HandoffError, match=message):
        make(np)
