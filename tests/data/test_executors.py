"""The same pipeline gives the same results on threads, processes and a cluster."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import sys
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from lazycore.data import DenseMediaPipeline, Failure, item_random


    class Tensor:
        def __init__(self, value):
            self.value = value

        def __dlpack__(self, **_):
            raise BufferError

        def __dlpack_device__(self):
            return (1, 0)


    class Odd(Exception):
        def __init__(self, first, second):
            super().__init__(first)
            self.handle = lambda: second


    class Pipeline(DenseMediaPipeline):
        def decode(self, raw):
            if raw == b"bad":
                raise Odd("cannot travel", 2)
            return raw[0]

        def augment(self, decoded):
            return decoded + item_random().randrange(1000)

        def to_dense_tensor(self, augmented):
            return Tensor(augmented)


    RAWS = [bytes([k]) for k in range(60)]
    RAWS[30] = b"bad"


    def show(executor):
        found = Pipeline().run_many(
            RAWS, executor=executor, workers=2, on_error="yield", seed=5
        )
        return [
            (r.index, r.stage, "cannot travel" in str(r.exception))
            if isinstance(r, Failure) else (r.index, r.value.value)
            for r in found
        ]


    if __name__ == "__main__":
        with ThreadPoolExecutor(2) as pool:
            threads = show(pool)
        if sys.argv[1] == "processes":
            with ProcessPoolExecutor(2) as pool:
                others = show(pool)
        else:
            from distributed import Client, LocalCluster

            with LocalCluster(
                n_workers=2, threads_per_worker=1, host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as cluster, Client(cluster) as client:
                others = show(client.get_executor())
        assert len(threads) == 60 and threads[30] == (30, "decode", True), threads[30]
        assert threads == others
        print("equal")
"""


def run(folder: Path, where: str) -> str:
    script = folder / "pipeline_script.py"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), where],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_processes_give_what_threads_give(tmp_path: Path) -> None:
    assert run(tmp_path, "processes") == "equal"


@pytest.mark.slow
def test_a_dask_cluster_on_loopback_gives_what_threads_give(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    assert run(tmp_path, "dask").splitlines()[-1] == "equal"
