"""Time inspect_ai on its mock model; run by that environment's interpreter.

    python inspect_samples.py SAMPLES none|process

Prints the seconds of an evaluation of so many samples.
With ``process`` each sample starts one bare interpreter, as our fresh workers do.
"""

import sys
import tempfile
import time

import tiktoken


class Offline:
    """Stand in for a tokenizer whose file inspect_ai fetches even for its mock."""

    def encode(self, text: str, **_: object) -> list[int]:
        """Return one token per four characters."""
        return [0] * (len(text) // 4 + 1)

    encode_ordinary = encode


tiktoken.get_encoding = lambda _name: Offline()

import inspect_ai  # noqa: E402 - the tokenizer is replaced before
from inspect_ai.dataset import MemoryDataset, Sample  # noqa: E402
from inspect_ai.scorer import includes  # noqa: E402
from inspect_ai.solver import generate, solver  # noqa: E402
from inspect_ai.util import subprocess as start  # noqa: E402


@solver
def one_process():  # noqa: ANN201 - inspect_ai's own protocol
    """Start one interpreter, then ask the mock model."""

    async def solve(state, generate):  # noqa: ANN001, ANN202 - inspect_ai's own protocol
        await start([sys.executable, "-I", "-S", "-c", "pass"])
        return await generate(state)

    return solve


def seconds(samples: int, how: str) -> float:
    """Evaluate so many samples and return how long it took."""
    rows = [Sample(input=f"question {i}", target="Default") for i in range(samples)]
    task = inspect_ai.Task(
        dataset=MemoryDataset(rows),
        solver=one_process() if how == "process" else generate(),
        scorer=includes(),
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        (log,) = inspect_ai.eval(
            task,
            model="mockllm/model",
            log_dir=folder,
            display="none",
            max_subprocesses=2,
        )
        took = time.monotonic() - began
    if log.status != "success":
        sys.exit(f"inspect_ai ended with {log.status}")
    return took


if __name__ == "__main__":
    seconds(2, sys.argv[2])  # what is loaded once is not a sample's cost
    print(seconds(int(sys.argv[1]), sys.argv[2]))
