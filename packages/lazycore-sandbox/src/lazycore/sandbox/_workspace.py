"""A copy of a tree that a run may change while the host's own stays as it is."""

from __future__ import annotations

import dataclasses
import difflib
import os
import tempfile
from typing import TYPE_CHECKING

from lazycore.sandbox._errors import (
    SandboxError,
    SandboxPolicyError,
    SandboxWorkspaceError,
)
from lazycore.sandbox._paths import is_within, normalise_path
from lazycore.sandbox._policy import SandboxPolicy
from lazycore.sandbox._shortage import shortage
from lazycore.sandbox._workspace_apply import (
    refuse_conflicts,
    refuse_escaping_links,
    swap_in,
)
from lazycore.sandbox._workspace_stamps import with_digests
from lazycore.sandbox._workspace_tree import (
    checked_root,
    compare,
    copy_tree,
    read_file,
    scan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from lazycore.sandbox._executor import BaseSandboxExecutor
    from lazycore.sandbox._paths import StrPath
    from lazycore.sandbox._result import SandboxResult, WorkspaceChange

_DIFF_LIMIT = 1 << 20


class Workspace:
    """Let runs edit a copy of a directory; look at the changes; take them or not.

    The copy lies in a private temporary directory, `root`, and shares blocks with
    the original where the file system can. Hard links of the original are separate
    files in the copy, so no write reaches another name.

    Args:
        path: The directory; absolute, free of symbolic links.
        mode: `"copy-on-write"`, the only mode.

    Raises:
        SandboxPolicyError: `path` is no such directory.
        SandboxWorkspaceError: It holds sockets, pipes or devices.

    Examples:
        >>> import os, tempfile
        >>> from lazycore.sandbox import get_default_executor
        >>> folder = os.path.realpath(tempfile.mkdtemp())
        >>> with Workspace(folder) as work, get_default_executor() as executor:
        ...     result = work.run_command(executor, ["touch", "new"])
        ...     [change.path for change in result.changes], os.listdir(folder)
        (['new'], [])
    """

    def __init__(self, path: StrPath, mode: str = "copy-on-write") -> None:
        if mode != "copy-on-write":
            raise ValueError(f"mode must be 'copy-on-write', got {mode!r}")
        self.path = checked_root(normalise_path("workspace", path))
        self._original = scan(self.path)
        try:
            private = tempfile.mkdtemp(prefix="lazycore-workspace-")
        except OSError as error:
            raise self._uncopied(error) from error
        self._private = os.path.realpath(private)
        self.root = os.path.join(self._private, os.path.basename(self.path))
        try:
            self._fill()
        except OSError as error:
            self.discard()
            raise self._uncopied(error) from error
        except BaseException:
            self.discard()
            raise

    def _uncopied(self, error: OSError) -> SandboxWorkspaceError:
        short = shortage(error)
        remedy = f"; {short.remedy}" if short else ""
        return SandboxWorkspaceError(f"{self.path!r} is not copied: {error}{remedy}")

    def _fill(self) -> None:
        os.mkdir(self.root, 0o700)
        copy_tree(self.path, self.root, self._original)
        self._before = with_digests(self.root, scan(self.root))

    def grant(self, policy: SandboxPolicy | None = None) -> SandboxPolicy:
        """Return `policy` with the copy as a write path and, if unset, as its cwd.

        What the policy denies inside the original is denied inside the copy as well,
        and a `cwd` inside the original becomes its place in the copy.

        Args:
            policy: What else the run may do; None for nothing else.

        Returns:
            A policy that names `root`.

        Examples:
            >>> import os, tempfile
            >>> with Workspace(os.path.realpath(tempfile.mkdtemp())) as work:
            ...     work.grant().cwd == work.root
            True
        """
        self._require_open()
        policy = policy or SandboxPolicy()
        if policy.workspace not in {None, self.path}:
            raise SandboxPolicyError(
                f"the policy names the workspace {policy.workspace!r}, and this is one "
                f"of {self.path!r}"
            )
        copied = (
            self._in_copy(path)
            for path in policy.denied_paths
            if is_within(path, self.path)
        )
        return dataclasses.replace(
            policy,
            allowed_write_paths=(*policy.allowed_write_paths, self.root),
            denied_paths=(*policy.denied_paths, *copied),
            cwd=self.root if policy.cwd is None else self._in_copy(policy.cwd),
            workspace=None,
        )

    def _in_copy(self, path: str) -> str:
        """Return where the copy has what lies at `path`, else `path`."""
        if not is_within(path, self.path):
            return path
        return self.root + path[len(self.path) :]

    def run_command(
        self,
        executor: BaseSandboxExecutor,
        argv: Sequence[str | os.PathLike[str]],
        policy: SandboxPolicy | None = None,
        *,
        input: bytes | None = None,  # noqa: A002 - the name subprocess.run uses
    ) -> SandboxResult:
        """Run a command in the copy.

        Args:
            executor: The backend.
            argv: The command; it starts in `root`.
            policy: What else it may do.
            input: Bytes for its stdin.

        Returns:
            The result, with `changes` since the copy was made.

        Raises:
            SandboxError: Whatever the executor raises, and
                `SandboxWorkspaceError` when the run left what cannot be listed.
        """
        result = executor.run_command(argv, self.grant(policy), input=input)
        return dataclasses.replace(result, changes=self.changes())

    def changes(self) -> tuple[WorkspaceChange, ...]:
        """List what differs from the moment the copy was made, sorted by path.

        Returns:
            Added, modified and deleted paths with their sizes. A restored time
            does not hide a change.

        Raises:
            SandboxWorkspaceError: The copy holds what cannot be listed.
        """
        self._require_open()
        return compare(
            self._before, scan(self.root), original=self.path, copy=self.root
        )

    def diff(self) -> str:
        """Show the changes as a unified diff.

        Returns:
            Text, empty without changes. Files that are not UTF-8 or larger than
            1 MiB are named only. It is text of an untrusted run: neutralise it
            before a terminal shows it.

        Raises:
            SandboxWorkspaceError: The copy holds what cannot be listed.
        """
        return "".join(map(self._diff_one, self.changes()))

    def _diff_one(self, change: WorkspaceChange) -> str:
        # Quoted like git does: a name with a line break must not forge a line.
        name = change.path
        if not name.isprintable():
            name = repr(name)
        old = self._lines(self.path, change.path, change.previous_size_bytes)
        new = self._lines(self.root, change.path, change.size_bytes)
        if old is None or new is None or old == new:
            return f"{change.kind}: {name}\n"
        lines = difflib.unified_diff(
            old,
            new,
            "/dev/null" if change.kind == "added" else f"a/{name}",
            "/dev/null" if change.kind == "deleted" else f"b/{name}",
        )
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )

    @staticmethod
    def _lines(root: str, path: str, size: int | None) -> list[str] | None:
        if size is None:
            return [] if not os.path.lexists(os.path.join(root, path)) else None
        if size > _DIFF_LIMIT:
            return None
        try:
            text = read_file(os.path.join(root, path), _DIFF_LIMIT).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        return None if "\0" in text else text.splitlines(keepends=True)

    def apply(self) -> tuple[WorkspaceChange, ...]:
        """Make the changes the host's, all of them or none, and close.

        The changed tree is built beside the original and swapped with it in one
        system call. Set-id bits are dropped.

        Returns:
            What was applied.

        Raises:
            SandboxWorkspaceError: The original changed meanwhile where the run did,
                a link leads out of the tree, or the swap is not possible; the
                original is as it was, and the workspace stays open.
        """
        changes = self.changes()
        after = scan(self.root)
        changed = frozenset(change.path for change in changes)
        refuse_escaping_links(after, changed)
        refuse_conflicts(self.path, self._original, changes)
        if changes:
            swap_in(self.path, self.root, after=after, changed=changed)
        self.discard()
        return changes

    def discard(self) -> None:
        """Remove the copy; the original was never touched. Harmless when repeated.

        Warns:
            ResourceWarning: Something of the copy cannot be removed; names it.
        """
        from lazycore.sandbox._linux._remove import discard_tree

        if os.path.lexists(self._private):
            discard_tree(self._private)

    def _require_open(self) -> None:
        if not os.path.isdir(self.root):
            raise SandboxWorkspaceError(
                f"the workspace of {self.path!r} was applied or discarded; make another"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()


def run_in_copy(
    policy: SandboxPolicy, run: Callable[[SandboxPolicy], SandboxResult]
) -> SandboxResult:
    """Run under a policy that names a workspace; drop the copy afterwards.

    Args:
        policy: A policy whose `workspace` is set.
        run: Runs under the policy it is given, which grants the copy.

    Returns:
        The result with the changes and the digest of `policy`.

    Raises:
        SandboxError: Whatever `run` raises, its result with the changes as well.
    """
    assert policy.workspace is not None
    with Workspace(policy.workspace) as work:

        def complete(result: SandboxResult) -> SandboxResult:
            return dataclasses.replace(
                result, changes=work.changes(), policy_digest=policy.digest
            )

        try:
            return complete(run(work.grant(policy)))
        except SandboxError as error:
            if error.result is not None:
                error.result = complete(error.result)
            raise
