"""Audit the environment that runs this file and print what asks for a decision."""

from __future__ import annotations

from lazycore.licensing import audit, read_environment


def main() -> None:
    """Judge every installed distribution for use inside the organisation."""
    report = audit(read_environment(), usage="runtime-internal")
    print(f"{len(report.items)} distributions, exit code {report.exit_code}")
    for finding in report.findings:
        print(f"{finding.rule} {finding.message}")


if __name__ == "__main__":
    main()
