"""OpenTelemetry GenAI conventions, security findings, ML metrics and evaluation results over opentelemetry-api alone."""

__all__: list[str] = []
