"""Measure accuracy and processor time beside peers, in one run on one environment.

    python benchmarks/licensing.py --site SITE-PACKAGES [--labels TABLE.tsv]
        [--peers FOLDER] [--rounds 3] [--json FILE]

``FOLDER`` holds one virtual environment per peer, named like its distribution:
pip-licenses, licsniff, license-audit, cyclonedx-bom, licensecheck (its local look-up
alone: the rest asks the network). Absent peers are named and left out. Each round runs
every tool once, as its users run it; the best processor time of its child processes
counts. "exact" is the same set of SPDX ids with the same operator; "milder" is a class
below the label.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from lazycore.licensing import LicenseClass, assess, normalize

Answers = dict[str, str]


def name_of(text: str) -> str:
    """Return a distribution name in comparable form."""
    return text.replace("_", "-").replace(".", "-").lower()


def child_seconds() -> float:
    """Return user and system seconds of all finished children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: list[str], **env: str) -> str:
    """Run a tool and return what it prints."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "400", "NO_COLOR": "1"} | env,
    ).stdout


def ours(site: Path, _peers: Path) -> Answers:
    """Ask our own command line."""
    command = [sys.executable, "-m", "lazycore.licensing", "audit", "--json"]
    found = json.loads(run([*command, "--env", str(site)]))
    return {row["name"]: row["expression"] or "" for row in found["packages"]}


def pip_licenses(site: Path, peers: Path) -> Answers:
    """Ask pip-licenses through the environment's own interpreter."""
    python = site.parents[2] / "bin/python"
    command = [str(peers / "pip-licenses/bin/pip-licenses"), "--python", str(python)]
    rows = json.loads(run([*command, "--format=json", "--with-system", "--from=mixed"]))
    return {row["Name"]: row["License"] for row in rows}


def licsniff(site: Path, peers: Path) -> Answers:
    """Ask licsniff."""
    command = [str(peers / "licsniff/bin/licsniff"), "--path", str(site), "--json"]
    rows = json.loads(run(command))["packages"]
    return {row["name"]: row["spdx"] or row["license"] for row in rows}


def license_audit(site: Path, peers: Path) -> Answers:
    """Ask license-audit."""
    command = [str(peers / "license-audit/bin/license-audit"), "--target"]
    text = run([*command, str(site.parents[2]), "report", "--format", "json"])
    rows = json.loads(text)["packages"]
    return {row["name"]: row["license_expression"] for row in rows}


def cyclonedx_bom(site: Path, peers: Path) -> Answers:
    """Ask cyclonedx-py for the environment's bill of materials."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "bom.json"
        command = [str(peers / "cyclonedx-bom/bin/cyclonedx-py"), "environment"]
        run([*command, str(site.parents[2] / "bin/python"), "-o", str(output)])
        rows = json.loads(output.read_text())["components"]
    answers = {}
    for row in rows:
        stated = [
            item.get("expression")
            or item["license"].get("id")
            or item["license"].get("name", "")
            for item in row.get("licenses", [])
        ]
        answers[row["name"]] = stated[0] if stated else ""
    return answers


_LOOK_UP = """
import importlib.metadata, json
from licensecheck.packageinfo import LocalPackageInfo
from licensecheck.types import PackageInfo
names = [d.metadata["Name"] for d in importlib.metadata.distributions(path=[SITE])]
look = lambda name: LocalPackageInfo(PackageInfo(name=name)).get_license()
print(json.dumps({name: look(name) or "" for name in names}))
"""


def licensecheck(site: Path, peers: Path) -> Answers:
    """Ask licensecheck's local look-up, which reads installed metadata."""
    python = str(peers / "licensecheck/bin/python")
    program = f"SITE = {str(site)!r}\n{_LOOK_UP}"
    answers: Answers = json.loads(run([python, "-c", program], PYTHONPATH=str(site)))
    return answers


TOOLS = {
    "lazycore-licensing": ours,
    "pip-licenses": pip_licenses,
    "licsniff": licsniff,
    "license-audit": license_audit,
    "cyclonedx-bom": cyclonedx_bom,
    "licensecheck": licensecheck,
}


def shape(text: str) -> tuple[frozenset[str], bool] | None:
    """Return ids and whether there is a choice; None for what is no expression."""
    expression = normalize(text)
    if expression is None:
        return None
    return frozenset(map(str, expression.licenses())), " OR " in str(expression)


def score(answers: Answers, labels: list[dict[str, str]]) -> dict[str, int]:
    """Compare the answers of one tool with the labels."""
    known = {name_of(name): text for name, text in answers.items()}
    count = {"exact": 0, "no expression": 0, "other": 0, "milder": 0}
    for row in labels:
        found = shape(known.get(name_of(row["name"]), ""))
        wanted = [row["truth"], *filter(None, row["accept"].split(" ;; "))]
        if found is None:
            count["no expression"] += 1
            continue
        count["exact" if found in map(shape, wanted) else "other"] += 1
        judged = assess(known[name_of(row["name"])], usage="distributed")
        label = LicenseClass[row["class"].upper().replace("-", "_")]
        count["milder"] += judged.license_class < label
    return count


def main() -> None:
    """Run every tool that is there and print one table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--site", type=Path, help="site-packages to audit")
    options.add_argument("--labels", type=Path)
    options.add_argument("--peers", type=Path, default=Path("peers"))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--json", type=Path)
    chosen = options.parse_args()
    site = chosen.site or Path(next(p for p in sys.path if p.endswith("site-packages")))
    labels: list[dict[str, str]] = []
    if chosen.labels:
        with chosen.labels.open(encoding="utf-8", newline="") as lines:
            labels = list(csv.DictReader(lines, delimiter="\t"))
    best: dict[str, float] = {}
    answers: dict[str, Answers] = {}
    for _ in range(chosen.rounds):
        for name, tool in TOOLS.items():
            if tool is not ours and not (chosen.peers / name / "bin").is_dir():
                continue
            before = child_seconds()
            try:
                answers[name] = tool(site, chosen.peers)
            except (OSError, ValueError, KeyError) as error:
                print(f"{name} failed: {error}", file=sys.stderr)
                continue
            best[name] = min(best.get(name, 1e9), child_seconds() - before)
    for name in TOOLS:
        if name not in best:
            print(f"{name}: not measured, no environment {chosen.peers / name}")
    base = best["lazycore-licensing"]
    print(f"{'tool':<20} {'CPU s':>7} {'ratio':>6} {'packages':>8}", end="")
    print("  exact  no expression  other  milder" if labels else "")
    rows = {}
    for name, seconds in best.items():
        scored = score(answers[name], labels) if labels else {}
        rows[name] = {"cpu_s": seconds, "packages": len(answers[name]), **scored}
        cells = "".join(f"{value:>9}" for value in scored.values())
        ratio = seconds / base
        print(
            f"{name:<20} {seconds:>7.2f} {ratio:>6.1f} {len(answers[name]):>8}{cells}"
        )
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
