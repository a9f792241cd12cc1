"""How one run enters: a thread that gives up every right, then spawns the target.

Namespaces, credentials, Landlock domains and seccomp filters belong to a thread
(namespaces(7), credentials(7), landlock(7), seccomp(2)). The thread confines itself
before it spawns the target (posix_spawn(3): no copy of this process is made), so the
target inherits everything and there is no moment at which it is less confined. The
thread then ends. The rest of the process is not confined, and out of reach: it takes no
signal from the target (of a namespace's members by its init, else by the Landlock
scope), it is not dumpable, which closes its memory and descriptors in /proc, and the
filter lets no limit of it be changed.
"""

from __future__ import annotations

import _thread
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lazycore.sandbox._linux import _calls, _landlock, _target
from lazycore.sandbox._linux._fork import fork_target
from lazycore.sandbox._linux._own_root import step_into
from lazycore.sandbox._linux._spawn import spawn_target
from lazycore.sandbox._linux._stage import StageError

if TYPE_CHECKING:
    from lazycore.sandbox._linux._kept_root import KeptRoot
    from lazycore.sandbox._linux._landlock import Rule
    from lazycore.sandbox._linux._proc import Numbers
    from lazycore.sandbox._linux._request import Request
    from lazycore.sandbox._linux._supervisor import Supervisor


class Entry(ABC):
    """One run's way in.

    Args:
        request: The run.
        forks: Whether the target is a copy of this process, not a new program.
    """

    def __init__(self, request: Request, *, forks: bool) -> None:
        self._request = request
        self._forks = forks
        self._opened: list[int] = []
        self._target = 0
        self._status = -1
        self._error: BaseException | None = None

    def start(self, fds: list[int], supervisor: Supervisor) -> int:
        """Start the target with `fds` as its first descriptors; return its pid.

        Raises:
            StageError: If a step is refused; the target was then not started.
        """
        done = _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(self._run, (fds, supervisor, done))
        done.acquire()
        # The pipes must have no writer left when the target is gone.
        for fd in (*self._opened, *fds):
            os.close(fd)
        if self._error is not None:
            if self._status >= 0:
                os.close(self._status)
            raise self._error
        return self._target

    def failure(self) -> StageError | None:
        """Return what kept the target from running; it has ended by now."""
        if self._status < 0:
            return None
        return _target.failure(self._status)

    def close(self) -> None:  # noqa: B027 - only some hold anything
        """Let go of what was open for the whole run."""

    def _run(
        self, fds: list[int], supervisor: Supervisor, done: _thread.LockType
    ) -> None:
        try:
            os.umask(0o022)
            self._confine(fds, supervisor)
            _calls.install_filter(self._request["filter"])
            self._target = self._start(fds)
        except StageError as error:
            self._error = error
        except OSError as error:
            detail = str(error.filename or "")
            self._error = StageError("confine", error.errno or 0, detail)
        except BaseException as error:  # noqa: BLE001 - raised again by `start`
            self._error = error
        finally:
            done.release()

    def _start(self, fds: list[int]) -> int:
        if not self._forks:
            return spawn_target(self._request, fds)
        self._status, told = os.pipe2(os.O_CLOEXEC)
        self._opened.append(told)
        return fork_target(self._request, fds, told)

    @abstractmethod
    def _confine(self, fds: list[int], supervisor: Supervisor) -> None:
        """Give up in this thread all that the policy does not grant."""


class LandlockEntry(Entry):
    """A way into a Landlock domain.

    Args:
        request: The run.
        rules: Rules for what every run of the slot is granted.
        forks: As in `Entry`.
    """

    def __init__(self, request: Request, rules: list[Rule], *, forks: bool) -> None:
        super().__init__(request, forks=forks)
        self._rules = rules

    def _confine(self, fds: list[int], supervisor: Supervisor) -> None:
        # Containers refuse unshare(2), so that the slot comes along to the working
        # directory; it uses no relative path, and leaves it in `close`.
        del fds
        own = _landlock.open_rules(self._request["rules"])
        self._opened += [fd for fd, _ in own]
        supervisor.start_meter([])
        _target.restrict(self._request, [*self._rules, *own])

    def close(self) -> None:
        """Hold on to no directory of the run."""
        os.chdir("/")


class NamespaceEntry(Entry):
    """A way into new namespaces and a root of its own.

    Args:
        request: The run.
        root: The root of its plan.
        bare: A mount namespace with little in it, of which it enters a copy.
        net: Its network namespace, -1 to stay in this process's.
        numbers: The pids of the namespace.
        forks: As in `Entry`.
    """

    def __init__(
        self,
        request: Request,
        *,
        root: KeptRoot,
        bare: int,
        net: int,
        numbers: Numbers,
        forks: bool,
    ) -> None:
        super().__init__(request, forks=forks)
        self._root = root
        self._bare = bare
        self._net = net
        self._numbers = numbers
        self._scratch: list[int] = []
        # Copied here: a thread in another mount namespace may not.
        self._trees = root.copies()
        self._opened += self._trees

    def close(self) -> None:
        """Let go of the run's scratch file systems, which were open to be measured."""
        while self._scratch:
            os.close(self._scratch.pop())

    def _confine(self, fds: list[int], supervisor: Supervisor) -> None:
        ruleset = self._build()
        if not self._request["input"]:
            _target.read_nothing(fds)
        supervisor.start_meter(self._scratch)
        self._numbers.begin()
        _target.change_directory(self._request["cwd"])
        _calls.drop_capabilities()
        if ruleset >= 0:
            _calls.landlock_restrict(ruleset)

    def _build(self) -> int:
        """Enter new namespaces and make the root; return the Landlock ruleset."""
        # setns(2): only a thread whose root and working directory are its own may.
        _calls.unshare(_calls.CLONE_FS)
        _calls.setns(self._bare, _calls.CLONE_NEWNS)
        _calls.unshare(_calls.CLONE_NEWNS | _calls.CLONE_NEWIPC)
        if self._net >= 0:
            _calls.setns(self._net, _calls.CLONE_NEWNET)
        root = self._trees[0]
        _calls.move_mount(root, _calls.AT_FDCWD, "root")
        size = self._request["base"]["scratch_bytes"]
        own = self._root.furnish(self._trees, size)
        *self._scratch, terminals = [fd for fd, _ in own]
        self._opened.append(terminals)
        ruleset = -1
        if self._request["landlock_abi"]:
            ruleset = self._root.ruleset(own)
            self._opened.append(ruleset)
        step_into(root)
        return ruleset
