"""Attribute names that users import: kept ones and the slice's own."""

from __future__ import annotations

from typing import Final

ATTR_SECURITY_SEVERITY: Final = "security.severity"
ATTR_OWASP_MAPPING: Final = "owasp.mapping"
ATTR_ML_METRIC_PREFIX: Final = "ml.metric."
ATTR_ML_METRIC_ACCURACY: Final = "ml.metric.accuracy"
# Names of this project's transcripts; the conventions never had them.
ATTR_GENAI_EVENT_ROLE: Final = "gen_ai.event.role"
ATTR_GENAI_EVENT_CONTENT: Final = "gen_ai.event.content"

EVENT_TRANSCRIPT: Final = "gen_ai.content"
EVENT_EVALUATION: Final = "gen_ai.evaluation.result"
EVENT_DETAILS: Final = "gen_ai.client.inference.operation.details"
EVENT_EXCEPTION: Final = "gen_ai.client.operation.exception"
EVENT_FINDING: Final = "security.finding"

SCOPE: Final = "lazycore.telemetry"
# The registry that the names follow; it has development versions only.
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
