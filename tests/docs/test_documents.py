"""Run every code block that a reader can copy.

Python blocks run in one namespace per document. Console blocks run line by line
in one scratch folder per document; `...` in their output stands for anything.
"""

from __future__ import annotations

import doctest
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sybil import Region, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sybil import Document
    from sybil.example import Example

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "packages/*/README.md", "docs/**/*.md", "examples/*.md")
    for path in ROOT.glob(pattern)
    if "_build" not in path.parts
)
# Commands that install or need a machine of their own: each is run elsewhere.
RUN_ELSEWHERE = (
    "apt-get ",
    "docker ",
    "git ",
    "nox",
    "pip ",
    "python3 -m venv",
    "sudo ",
    ".venv/bin/",
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


# What a command printed and left in an empty folder. Two READMEs open with the
# same study of half a minute: it runs once, and both are held against it.
FROM_NOTHING: dict[str, tuple[subprocess.CompletedProcess[str], Path]] = {}


class ConsoleBlock:
    """Check one ``console`` block by running its commands."""

    def __call__(self, example: Example) -> str | None:
        folder: Path = example.namespace["_folder"]
        for command, expected in split_console(str(example.parsed)):
            if command.startswith(RUN_ELSEWHERE):
                continue
            done = run_command(command, folder)
            # A terminal shows both streams; a document may show the first alone.
            shown = (done.stdout, done.stdout + done.stderr)
            if expected.strip() and not any(matches(expected, text) for text in shown):
                return f"$ {command}\nexpected:\n{expected}\nfound:\n{shown[1]}"
        return None


def run_command(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one command of a document in the document's folder."""
    from_nothing = not any(folder.iterdir())
    if from_nothing and command in FROM_NOTHING:
        done, left = FROM_NOTHING[command]
        shutil.copytree(left, folder, symlinks=True, dirs_exist_ok=True)
        return done
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=os.environ
        | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "88",
            "NO_COLOR": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if from_nothing and any(folder.iterdir()):
        left = folder.with_name(f"{folder.name}-left")
        shutil.copytree(folder, left, symlinks=True)
        FROM_NOTHING[command] = done, left
    return done


def matches(expected: str, found: str) -> bool:
    return doctest.OutputChecker().check_output(expected, found, OPTIONS)


def split_console(text: str) -> Iterator[tuple[str, str]]:
    """Yield (command, expected output) pairs of a console block."""
    command, output = "", list[str]()
    continues = False
    for line in text.splitlines():
        if continues:
            command += "\n" + line
        elif line.startswith("$ "):
            if command:
                yield command, "\n".join(output) + "\n"
            command, output = line[2:], []
        else:
            output.append(line)
            continue
        continues = command.endswith("\\")
    if command:
        yield command, "\n".join(output) + "\n"


def console_blocks(document: Document) -> Iterable[Region]:
    evaluate = ConsoleBlock()
    for lexed in FencedCodeBlockLexer("console")(document):
        yield Region(lexed.start, lexed.end, str(lexed.lexemes["source"]), evaluate)


def test_every_document_is_found() -> None:
    assert ROOT / "README.md" in DOCUMENTS
    assert len(DOCUMENTS) >= 7


@pytest.mark.parametrize(
    "path", DOCUMENTS, ids=[str(p.relative_to(ROOT)) for p in DOCUMENTS]
)
def test_code_blocks_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sybil = Sybil(
        parsers=[
            PythonCodeBlockParser(
                future_imports=["annotations"],
                doctest_optionflags=OPTIONS,
            ),
            console_blocks,
        ]
    )
    monkeypatch.chdir(tmp_path)
    document = sybil.parse(path)
    document.namespace["_folder"] = tmp_path
    document.namespace["__name__"] = "__main__"
    for example in document.examples():
        example.evaluate()
