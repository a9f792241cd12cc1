"""Run a script that nobody trusts, and look at everything it tried."""

from __future__ import annotations

import sys

from lazycore.sandbox import ResourceLimits, SandboxPolicy, get_default_executor

UNTRUSTED = """
import os, socket
print("I can compute:", sum(range(10)))
for attempt in (
    lambda: open("/etc/shadow").read(),
    lambda: socket.create_connection(("127.0.0.1", 22), 1),
    lambda: os.kill(os.getppid(), 9),
):
    try:
        attempt()
        print("got through")
    except Exception as error:
        print("refused:", type(error).__name__)
"""


def main() -> None:
    """Run the script under a policy that grants nothing but time and memory."""
    policy = SandboxPolicy(
        timeout_s=10, limits=ResourceLimits(memory_bytes=256 * 2**20, cpu_s=5)
    )
    with get_default_executor(policy) as executor:
        result = executor.run_command([sys.executable, "-I", "-c", UNTRUSTED], policy)
    print(result.stdout_text, end="")
    print(f"exit {result.returncode}, {result.usage.cpu_s:.2f} s of CPU")
    print(f"held by {result.backend}; nothing degraded: {not result.degraded}")


if __name__ == "__main__":
    main()
