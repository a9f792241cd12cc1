"""COO to CSR with edge numbers: nanoseconds per element beside peers that install.

    python benchmarks/sparse.py [--elements 5000000] [--nodes 1000000] [--json]

Best of interleaved rounds, in processor time of one thread, so that a busy machine
changes little; the peak is memory above the inputs, as the kernel counts it. The
floor is what one thread needs to read and write the arrays once.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
except ImportError as error:
    print(f"nothing measured: {error.name} is not installed")
    sys.exit()

from lazycore.data import ArraySparseAdapter

if TYPE_CHECKING:
    from collections.abc import Callable


def peers(i: Any, j: Any, v: Any, nodes: int) -> dict[str, Callable[[], Any]]:
    """Return the peers that are installed."""
    found: dict[str, Callable[[], Any]] = {}
    shape = (nodes, nodes)
    try:
        sparse = import_module("scipy.sparse")

        def by_scipy() -> Any:
            return sparse.coo_array((v, (i, j)), shape=shape).tocsr()

        found["scipy tocsr (sums duplicates)"] = by_scipy
    except ImportError:
        pass
    try:
        torch = import_module("torch")
        torch.set_num_threads(1)
        place = torch.from_numpy(np.stack([i, j]).astype(np.int64))
        values = torch.from_numpy(v)

        def by_torch() -> Any:
            return torch.sparse_coo_tensor(place, values, shape).to_sparse_csr()

        found["torch to_sparse_csr (sums duplicates)"] = by_torch
        geometric = import_module("torch_geometric")

        def by_pyg() -> Any:
            edges = geometric.EdgeIndex(place, sparse_size=(nodes, nodes))
            return edges.sort_by("row")[0].get_csr()

        found["PyG EdgeIndex.sort_by (keeps)"] = by_pyg
    except ImportError:
        pass
    return found


def copy_rate() -> float:
    """Return what one thread copies, in GB/s read and written."""
    big = np.zeros(1 << 24)
    out = np.empty_like(big)
    copy_s = float("inf")
    for _ in range(5):
        began = time.process_time()
        np.copyto(out, big)
        copy_s = min(copy_s, time.process_time() - began)
    return float(2 * big.nbytes / copy_s / 1e9)


def status(key: str) -> int:
    """Return a line of this process's status in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    return 0


def peak(route: Callable[[], Any]) -> float:
    """Return the megabytes that a call takes above what is held already."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS")
    route()
    return (status("VmHWM") - before) / 1e6


def show(
    measured: dict[str, dict[str, float]], peaks: dict[str, float], bandwidth: float
) -> None:
    """Print tables for people."""
    print(f"one thread copies {bandwidth:.1f} GB/s; ns per element, x of ours")
    for title, found in measured.items():
        print(f"\nCOO to CSR, {title}")
        ours = found["ours (keeps, edge numbers)"]
        for name, ns in sorted(found.items(), key=lambda item: item[1]):
            print(f"  {ns / ours:6.2f}x {ns:8.1f}  {name}")
    print("\npeak memory, int64, random: MB")
    for name, size in sorted(peaks.items(), key=lambda item: item[1]):
        print(f"  {size:8.0f}  {name}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=5_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    import warnings

    warnings.simplefilter("ignore")
    bandwidth, rng = copy_rate(), np.random.default_rng(0)
    count, nodes = options.elements, options.nodes
    measured: dict[str, dict[str, float]] = {}
    peaks: dict[str, float] = {}
    for width in ("int64", "int32"):
        for order in ("random", "sorted"):
            i = rng.integers(0, nodes, count).astype(width)
            j = rng.integers(0, nodes, count).astype(width)
            v = rng.random(count)
            if order == "sorted":
                i.sort()
            graph = ArraySparseAdapter.from_coo(i, j, v, shape=(nodes, nodes))
            routes = {"ours (keeps, edge numbers)": graph.to_csr}
            routes |= peers(i, j, v, nodes)
            found = dict.fromkeys(routes, float("inf"))
            for _ in range(options.rounds):
                for name, route in routes.items():
                    began = time.process_time()
                    route()
                    spent = (time.process_time() - began) / count * 1e9
                    found[name] = min(found[name], spent)
            if width == "int64" and order == "random":
                peaks = {name: peak(route) for name, route in routes.items()}
            size = i.itemsize
            found["floor by bandwidth"] = (3 * size + 16) / bandwidth
            measured[f"{width}, {order}"] = found
    if options.json:
        print(json.dumps({"ns": measured, "peak_mb": peaks}))
        return
    show(measured, peaks, bandwidth)


if __name__ == "__main__":
    main()
