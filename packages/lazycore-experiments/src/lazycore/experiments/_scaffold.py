"""Write a small study that runs, as a start for one's own."""

from __future__ import annotations

from pathlib import Path

from lazycore.experiments._errors import ArtifactError

__all__ = ["init_study"]

_STUDY = """\
# Does the candidate help, compared with doing nothing?
schema = 1

[study]
id = "{id}"
title = "Strip and fold case before matching"
question = "Does cleaning an answer's text raise the share of exact matches?"
baseline = "no_op"
mode = "fresh"          # a process per arm and cell; or "fork", or "session"
seeds = [0]

[worker]
entrypoint = "worker.py"

[arms.no_op]
title = "text as it is"
parameters = {{ clean = false }}

[arms.candidate]
title = "text stripped and case-folded"
parameters = {{ clean = true }}

[[benchmarks]]
id = "answers"
units = ["Paris", " paris", "LYON", "Nice ", "Lille", "metz", "Brest", " Pau "]

[metrics.exact_match]
kind = "binary"
primary = true

[limits]
wall_timeout_s = 20.0
"""
_WORKER = '''\
"""Score one answer; print() is harmless, the result goes its own way."""

from lazycore.experiments import Reply, Request, serve

EXPECTED = {"paris", "lyon", "nice", "lille", "metz", "brest", "pau"}


def handler(request: Request) -> Reply:
    answer = request.unit
    if request.parameters["clean"]:
        answer = answer.strip().casefold()
    return Reply({"exact_match": float(answer in EXPECTED)}, output=answer)


if __name__ == "__main__":
    serve(handler)
'''


def init_study(folder: str | Path) -> Path:
    """Write ``study.toml`` and ``worker.py`` into a new or empty folder.

    Args:
        folder: Where; made when absent. Its name becomes the study's id.

    Returns:
        The path of the study file.

    Raises:
        ArtifactError: The folder holds files already.

    Examples:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as place:
        ...     init_study(Path(place) / "mine").name
        'study.toml'
    """
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ArtifactError(f"{place}: not an empty folder; choose another")
    place.mkdir(parents=True, exist_ok=True)
    letters = (c if c.isascii() and c.isalnum() else "-" for c in place.resolve().name)
    name = "".join(letters).strip("-")[:64] or "study"
    study = place / "study.toml"
    study.write_text(_STUDY.format(id=name), encoding="utf-8")
    (place / "worker.py").write_text(_WORKER, encoding="utf-8")
    return study
