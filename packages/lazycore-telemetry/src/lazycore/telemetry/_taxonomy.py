"""Identifiers of weaknesses: validated, canonical, sorted.

Sources: OWASP Top 10 for LLM Applications 2025; OWASP Top 10 for Agentic
Applications 2026; MITRE ATLAS identifiers; CWE; CVE (numbers of four digits or
more since 2014).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lazycore.telemetry._errors import TelemetryUsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["OWASP_AGENTIC_2026", "OWASP_LLM_2025", "atlas_ids", "cwe_ids", "owasp_ids"]

OWASP_LLM_2025: Final = (
    "prompt_injection",
    "sensitive_info_disclosure",
    "supply_chain",
    "data_and_model_poisoning",
    "improper_output_handling",
    "excessive_agency",
    "system_prompt_leakage",
    "vector_and_embedding_weaknesses",
    "misinformation",
    "unbounded_consumption",
)
OWASP_AGENTIC_2026: Final = (
    "goal_hijack",
    "tool_misuse_and_exploitation",
    "identity_and_privilege_abuse",
    "agentic_supply_chain",
    "unexpected_code_execution",
    "memory_and_context_poisoning",
    "insecure_inter_agent_communication",
    "cascading_failures",
    "human_agent_trust_exploitation",
    "rogue_agents",
)

_OWASP = re.compile(r"(LLM|ASI|MCP)-?(0?[1-9]|10)(?::(\d{4}))?", re.ASCII)
# The edition that a bare number means. No edition of the MCP list is fixed yet.
_EDITIONS: Final = {"LLM": "2025", "ASI": "2026", "MCP": ""}
_ATLAS = re.compile(r"AML\.(?:T\d{4}(?:\.\d{3})?|TA\d{4}|M\d{4}|CS\d{4})", re.ASCII)
_CWE = re.compile(r"CWE-[1-9]\d{0,6}", re.ASCII)
_CVE = re.compile(r"CVE-\d{4}-\d{4,19}", re.ASCII)


def _each(values: str | Iterable[str]) -> list[str]:
    found = [values] if isinstance(values, str) else list(values)
    for value in found:
        if not isinstance(value, str):
            raise TelemetryUsageError(
                f"an identifier is a string, not {type(value).__name__}"
            )
    return [value.strip().upper() for value in found]


def owasp_ids(values: str | Iterable[str]) -> tuple[str, ...]:
    """Return canonical identifiers of the OWASP lists, sorted and without doubles.

    A bare `LLM02` means the 2025 edition. Numbers of the 2023 and 2024 editions mean
    other risks, so an explicit older edition is refused rather than mixed in.
    MITRE ATLAS identifiers are taken too: findings map to both in one attribute.
    """
    found = set()
    for value in _each(values):
        match = _OWASP.fullmatch(value)
        if match is None and _ATLAS.fullmatch(value):
            found.add(value)
            continue
        if match is None:
            raise TelemetryUsageError(
                f"unknown OWASP identifier {value[:80]!r}: give LLM01 to LLM10, "
                "ASI01 to ASI10, MCP01 to MCP10, or a MITRE ATLAS identifier"
            )
        family, number, year = match.groups()
        edition = _EDITIONS[family]
        if year and edition and year != edition:
            raise TelemetryUsageError(
                f"{value} is of another edition: {family} numbers here are of "
                f"{edition}; give the matching {family} number of {edition}"
            )
        year = year or edition
        found.add(f"{family}{int(number):02d}" + (f":{year}" if year else ""))
    return tuple(sorted(found))


def _matching(
    values: str | Iterable[str], pattern: re.Pattern[str], kind: str, example: str
) -> tuple[str, ...]:
    found = set()
    for value in _each(values):
        if not pattern.fullmatch(value):
            raise TelemetryUsageError(
                f"unknown {kind} identifier {value[:80]!r}: write it like {example}"
            )
        found.add(value)
    return tuple(sorted(found))


def atlas_ids(values: str | Iterable[str]) -> tuple[str, ...]:
    """Return MITRE ATLAS identifiers, checked by their pattern only."""
    return _matching(values, _ATLAS, "MITRE ATLAS", "AML.T0051 or AML.T0051.000")


def cwe_ids(values: str | Iterable[str]) -> tuple[str, ...]:
    """Return CWE identifiers."""
    return _matching(values, _CWE, "CWE", "CWE-94")


def cve_ids(values: str | Iterable[str]) -> tuple[str, ...]:
    """Return CVE identifiers."""
    return _matching(values, _CVE, "CVE", "CVE-2026-12345")


def risk_category(identifier: str) -> str | None:
    """Return the slug of an OWASP identifier, None where the list has no slugs here."""
    family, number = identifier[:3], identifier[3:5]
    names = {"LLM": OWASP_LLM_2025, "ASI": OWASP_AGENTIC_2026}.get(family)
    return names[int(number) - 1] if names and number.isdigit() else None
