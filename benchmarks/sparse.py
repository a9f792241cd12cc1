"""COO to CSR with edge numbers: nanoseconds per element beside peers that install.

    python benchmarks/sparse.py [--elements 5000000] [--nodes 1000000] [--json]

The floor is what one thread needs to read and write the arrays once.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
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
    rng = np.random.default_rng(0)
    big = np.zeros(1 << 24)
    out = np.empty_like(big)
    copy_s = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        np.copyto(out, big)
        copy_s = min(copy_s, time.perf_counter() - began)
    bandwidth = 2 * big.nbytes / copy_s / 1e9
    count, nodes = options.elements, options.nodes
    measured: dict[str, dict[str, float]] = {}
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
                    began = time.perf_counter()
                    route()
                    spent = (time.perf_counter() - began) / count * 1e9
                    found[name] = min(found[name], spent)
            size = i.itemsize
            found["floor by bandwidth"] = (3 * size + 16) / bandwidth
            measured[f"{width}, {order}"] = found
    if options.json:
        print(json.dumps(measured))
        return
    print(f"one thread copies {bandwidth:.1f} GB/s; ns per element, x of ours")
    for title, found in measured.items():
        print(f"\nCOO to CSR, {title}")
        ours = found["ours (keeps, edge numbers)"]
        for name, ns in sorted(found.items(), key=lambda item: item[1]):
            print(f"  {ns / ours:6.2f}x {ns:8.1f}  {name}")


if __name__ == "__main__":
    main()
