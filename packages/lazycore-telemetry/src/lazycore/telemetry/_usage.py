"""Names of token counts."""

from __future__ import annotations

from typing import Final

__all__ = ["MODALITIES", "USAGE", "USAGE_BY_MODALITY"]

MODALITIES: Final = ("text", "image", "audio")
USAGE: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cache_read": "gen_ai.usage.cache_read.input_tokens",
    "cache_write": "gen_ai.usage.cache_write.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
USAGE_BY_MODALITY: Final = {
    modality: {
        "input": f"gen_ai.usage.{modality}.input_tokens",
        "output": f"gen_ai.usage.{modality}.output_tokens",
        "cache_read": f"gen_ai.usage.{modality}.cache_read.input_tokens",
    }
    for modality in MODALITIES
}
