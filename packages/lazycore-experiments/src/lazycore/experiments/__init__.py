"""Method-versus-NO_OP discovery through locked, sandboxed worker processes, paired statistics and a report."""

__all__: list[str] = []
