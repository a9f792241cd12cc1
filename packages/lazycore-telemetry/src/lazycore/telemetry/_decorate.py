"""Give each call of a function a span of its own."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazycore.telemetry._span import GenAISpan

__all__ = ["decorate"]

P = ParamSpec("P")
R = TypeVar("R")


def decorate(make: Callable[[], GenAISpan], function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a span around each call.

    A generator's span starts at its first step and ends with it; between two steps
    the context is the consumer's own.
    """
    from lazycore.telemetry._stream import wrap

    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def streamed(*args: P.args, **kwargs: P.kwargs) -> R:
            source: object = function(*args, **kwargs)
            return cast("R", wrap(make(), source, end=True))

        return streamed
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> object:
            with make():
                return await function(*args, **kwargs)

        return cast("Callable[P, R]", awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with make():
            return function(*args, **kwargs)

    return called
