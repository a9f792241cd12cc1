"""Run untrusted commands and callables on Linux and macOS: one policy, real kernel backends, fails closed."""

__all__: list[str] = []
