"""Name the rules of an audit, and say what to do about a finding of each."""

from __future__ import annotations

from typing import Final

# Stable: a number is never given to another rule.
RULES: Final = {
    "LZ001": "licence denied for this use",
    "LZ002": "licence needs review for this use",
    "LZ003": "no licence known",
    "LZ004": "evidence disagrees",
    "LZ005": "something bundled is stricter than the stated licence",
    "LZ006": "exception expired",
    "LZ007": "exception expires soon",
    "LZ008": "exception unused",
    "LZ009": "clarification void: the licence text changed",
    "LZ010": "clarification unused",
    "LZ011": "licence changed since the snapshot",
    "LZ012": "package missing from the evidence",
    "LZ013": "licence only guessed from prose",
    "LZ014": "evidence is for another version",
}

REMEDIES: Final = {
    "LZ001": "replace it, move it to a use that allows it, or add an [[exception]]",
    "LZ002": "do what the finding says, then record that as an [[exception]]",
    "LZ003": "read `explain PACKAGE`, then state the licence in a [[clarify]]",
    "LZ004": "read the files that `explain PACKAGE` names, then add a [[clarify]]",
    "LZ005": "read it; if you may ship it, add an [[exception]] that allows it",
    "LZ006": "decide again, then set a later day or remove the exception",
    "LZ007": "decide again before that day",
    "LZ008": "remove the exception, or correct its package, version or usage",
    "LZ009": "read the new text, then write its text-sha256",
    "LZ010": "remove the clarification, or correct its package or version",
    "LZ011": "read what changed, then take a new snapshot",
    "LZ012": "take a snapshot where it is installed, or state it in a [[clarify]]",
    "LZ013": "read its sources, then state the licence in a [[clarify]]",
    "LZ014": "take a snapshot where the locked version is installed",
}
