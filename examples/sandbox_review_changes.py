"""Let an agent edit a copy of a project; review the diff; take it or leave it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lazycore.sandbox import SandboxWorkspaceError, Workspace, get_default_executor

HELPFUL = "sed -i s/teh/the/ README"
HOSTILE = "ln -s /etc/passwd config && echo evil > .git-hook"


def main() -> None:
    """Apply what helps, refuse what would lead the host astray."""
    project = Path(os.path.realpath(tempfile.mkdtemp()))
    (project / "README").write_text("Fix teh typo.\n", encoding="utf-8")
    with get_default_executor() as executor:
        for script in (HELPFUL, HOSTILE):
            with Workspace(project) as work:
                work.run_command(executor, ["sh", "-c", script]).check()
                print(work.diff(), end="")
                try:
                    work.apply()
                except SandboxWorkspaceError as refusal:
                    print("refused:", str(refusal).split(",", maxsplit=1)[0])
    names = sorted(path.name for path in project.iterdir())
    print(names, (project / "README").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
