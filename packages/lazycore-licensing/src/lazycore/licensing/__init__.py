"""Licence-isolation policy as data, SPDX expressions, dependency audit and model-checkpoint allowlists."""

__all__: list[str] = []
