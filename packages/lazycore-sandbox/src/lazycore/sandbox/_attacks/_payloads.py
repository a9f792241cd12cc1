"""Callables that misbehave towards their caller. They run inside the sandbox only."""

from __future__ import annotations

import os
import pickle
from typing import Any, NoReturn


class Bomb:
    """A result whose pickle would run a command in whoever loads it."""

    def __init__(self, witness: str) -> None:
        self.witness = witness

    def __reduce__(self) -> Any:
        return os.mkdir, (self.witness,)


class RudeError(Exception):
    """An exception that runs code when it is shown, copied or loaded."""

    def __init__(self, witness: str) -> None:
        super().__init__(witness)
        self.witness = witness

    def __str__(self) -> NoReturn:
        raise SystemExit(self.witness)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.witness,)


def give_back(value: str) -> str:
    """Return the argument: shows that payloads run at all."""
    return value


def return_bomb(witness: str) -> object:
    """Return an object with a hostile pickle."""
    return Bomb(witness)


def write_pickle(witness: str) -> NoReturn:
    """Write a hostile pickle where the result frame belongs."""
    os.write(3, pickle.dumps(Bomb(witness)))
    os._exit(0)


def forge_frame(witness: str) -> NoReturn:
    """Write a frame of another call's nonce."""
    del witness
    os.write(3, b"LCF1\x10" + bytes(16) + b"\0\0\0\0\1N")
    os._exit(0)


def raise_rude(witness: str) -> NoReturn:
    """Raise an exception whose text and pickle are traps."""
    raise RudeError(witness)


def return_huge(witness: str) -> object:
    """Return more than any limit lets back."""
    del witness
    return b"x" * (80 << 20)


def return_deep(witness: str) -> object:
    """Return a value nested far beyond the recursion limit."""
    value: object = witness
    for _ in range(100_000):
        value = [value]
    return value


def return_cycle(witness: str) -> object:
    """Return a list that contains itself."""
    value: list[object] = [witness]
    value.append(value)
    return value


def print_escapes(witness: str) -> NoReturn:
    """Raise with terminal control sequences in the text."""
    raise ValueError(f"\x1b[2J\x1b]0;{witness}\x07\u202egpj")
