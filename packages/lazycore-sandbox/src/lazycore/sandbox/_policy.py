"""The policy: what a run may touch, how long and how much, as one frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lazycore.sandbox._errors import SandboxPolicyError
from lazycore.sandbox._limits import ResourceLimits, check_bound
from lazycore.sandbox._paths import clean_paths, is_within, normalise_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.sandbox._paths import StrPath


class Environment(Mapping[str, str]):
    """A frozen, hashable mapping of environment variables.

    Examples:
        >>> Environment({"A": "1"})["A"]
        '1'
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, str]) -> None:
        untyped: list[tuple[object, object]] = list(items.items())
        for name, value in untyped:
            if not isinstance(name, str) or not isinstance(value, str):
                raise SandboxPolicyError(
                    f"env must map str to str, got {name!r}; convert it with str()"
                )
            if not name or "=" in name or "\0" in name or "\0" in value:
                raise SandboxPolicyError(
                    f"env name {name!r} is empty or it or its value holds '=' or NUL; "
                    "rename it or encode the value"
                )
        plain = {str.__str__(n): str.__str__(v) for n, v in items.items()}
        self._items = dict(sorted(plain.items()))

    def __getitem__(self, key: str) -> str:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        # Values may be secrets: a policy is logged more often than it is read.
        return f"Environment({list(self._items)})"


@dataclass(frozen=True, slots=True, init=False)
class SandboxPolicy:
    """What a run may do. The empty policy is the strictest one.

    A policy is a value: frozen, hashable, written to JSON and back without loss,
    with a digest that is the same on every machine. Building one reads nothing
    from the file system; paths are checked against it when a run starts.

    Attributes:
        allow_network: Share the host's network instead of having none.
        allowed_read_paths: Absolute paths whose trees may be read.
        allowed_write_paths: Absolute paths whose trees may be read and changed.
        denied_paths: Absolute paths inside the former that stay closed.
        allowed_executables: None: whatever can be read may run. A tuple of
            absolute files: only these.
        env: All environment variables of the target beside a minimal PATH, HOME,
            LANG and TMPDIR, which it may override.
        cwd: Working directory; None is the run's private scratch directory.
        timeout_s: Wall-clock limit in seconds; None waits for ever.
        limits: Upper bounds of the run.
        include_system: Let the run read what /bin/sh and the running interpreter
            need; `describe()` lists it.
        allow_unix_sockets: Let the run create unix sockets, and so connect to any
            that lies in an allowed path.
        allow_hard_links: Accept files in a write path that have another name
            outside it, and so can be changed there as well, and denied files that
            have another name. Write paths are then not searched, nor for set-id
            files.
        workspace: A directory that the run sees as a writable copy of its own, in
            which it starts; `SandboxResult.changes` lists what became of it, and the
            copy is dropped. To look at the changes or to apply them, use `Workspace`.

    Raises:
        SandboxPolicyError: If a value cannot be held; the message names it.

    Examples:
        >>> policy = SandboxPolicy(allowed_read_paths=["/usr/share"], timeout_s=5)
        >>> SandboxPolicy.from_json(policy.to_json()) == policy
        True
    """

    allow_network: bool
    allowed_read_paths: tuple[str, ...]
    allowed_write_paths: tuple[str, ...]
    denied_paths: tuple[str, ...]
    allowed_executables: tuple[str, ...] | None
    env: Environment
    cwd: str | None
    timeout_s: float | None
    limits: ResourceLimits = field()
    include_system: bool
    allow_unix_sockets: bool
    allow_hard_links: bool
    workspace: str | None

    def __init__(
        self,
        allow_network: bool = False,  # noqa: FBT001, FBT002 - kept positional call form
        allowed_read_paths: Iterable[StrPath] = (),
        allowed_write_paths: Iterable[StrPath] = (),
        *,
        denied_paths: Iterable[StrPath] = (),
        allowed_executables: Iterable[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: StrPath | None = None,
        timeout_s: float | None = 60,
        limits: ResourceLimits | None = None,
        include_system: bool = True,
        allow_unix_sockets: bool = False,
        allow_hard_links: bool = False,
        workspace: StrPath | None = None,
    ) -> None:
        flags = {
            "allow_network": allow_network,
            "include_system": include_system,
            "allow_unix_sockets": allow_unix_sockets,
            "allow_hard_links": allow_hard_links,
        }
        for name, flag in flags.items():
            # "false" and 0.0 read like a refusal and act like a grant.
            if not isinstance(flag, bool):
                raise SandboxPolicyError(f"{name} must be True or False, got {flag!r}")
        check_bound("timeout_s", timeout_s, whole=False)
        if limits is not None and not isinstance(limits, ResourceLimits):
            raise SandboxPolicyError(f"limits must be ResourceLimits, got {limits!r}")
        values: dict[str, object] = {
            **flags,
            "allowed_read_paths": clean_paths("allowed_read_paths", allowed_read_paths),
            "allowed_write_paths": clean_paths(
                "allowed_write_paths", allowed_write_paths
            ),
            "denied_paths": clean_paths("denied_paths", denied_paths),
            "allowed_executables": None
            if allowed_executables is None
            else clean_paths("allowed_executables", allowed_executables),
            "env": Environment(env or {}),
            "cwd": None if cwd is None else normalise_path("cwd", cwd),
            "timeout_s": timeout_s,
            "limits": limits or ResourceLimits(),
            "workspace": None
            if workspace is None
            else normalise_path("workspace", workspace),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check_contradictions()

    def _check_contradictions(self) -> None:
        for denied in self.denied_paths:
            for role in ("allowed_read_paths", "allowed_write_paths"):
                for path in getattr(self, role):
                    if is_within(path, denied):
                        raise SandboxPolicyError(
                            f"{role} holds {path!r}, which denied_paths closes with "
                            f"{denied!r}; drop one of the two"
                        )
            for role in ("cwd", "workspace"):
                path = getattr(self, role)
                if path is not None and is_within(path, denied):
                    raise SandboxPolicyError(
                        f"{role} {path!r} lies in the denied path {denied!r}"
                    )

    def to_json(self) -> str:
        """Write the policy as canonical JSON: sorted keys, no spaces, ASCII.

        Returns:
            Text that `from_json` reads back to an equal policy. It holds the
            values of `env`.

        Examples:
            >>> '"timeout_s":60' in SandboxPolicy().to_json()
            True
        """
        import json

        plain: dict[str, object] = {
            item.name: getattr(self, item.name) for item in fields(self)
        }
        plain["env"] = dict(self.env)
        plain["limits"] = {
            item.name: getattr(self.limits, item.name) for item in fields(self.limits)
        }
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SandboxPolicy:
        """Read a policy that `to_json` wrote, or one written by hand.

        Args:
            text: A JSON object; absent keys keep their defaults.

        Returns:
            The policy.

        Raises:
            SandboxPolicyError: If the text is not such an object, or a key is
                unknown: a misspelt rule must not vanish.

        Examples:
            >>> SandboxPolicy.from_json('{"timeout_s": 5}').timeout_s
            5
        """
        import json

        try:
            plain = json.loads(text)
        except ValueError as error:
            raise SandboxPolicyError(f"the policy is not JSON: {error}") from error
        known = {item.name for item in fields(cls)}
        if not isinstance(plain, dict):
            raise SandboxPolicyError("the policy must be a JSON object")
        _refuse_unknown("policy", plain, known)
        limits = plain.pop("limits", None)
        if limits is not None:
            if not isinstance(limits, dict):
                raise SandboxPolicyError("limits must be a JSON object")
            names = {item.name for item in fields(ResourceLimits)}
            _refuse_unknown("limits", limits, names)
            plain["limits"] = ResourceLimits(**limits)
        if not isinstance(plain.get("env", {}), dict):
            raise SandboxPolicyError("env must be a JSON object")
        return cls(**plain)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, as 64 hexadecimal digits.

        Examples:
            >>> len(SandboxPolicy().digest)
            64
        """
        return _digest(self)

    def describe(self) -> str:
        """Say in lines for a person what the run may do, the system set included.

        Returns:
            Text, one rule per line; names of environment variables without
            their values.

        Examples:
            >>> "network: none" in SandboxPolicy().describe()
            True
        """
        from lazycore.sandbox._system import system_paths

        rows = [f"network: {'shared with the host' if self.allow_network else 'none'}"]
        rows += [f"read: {path}" for path in self.allowed_read_paths]
        rows += [f"write: {path}" for path in self.allowed_write_paths]
        rows += [f"deny: {path}" for path in self.denied_paths]
        if self.allowed_executables is None:
            rows.append("execute: whatever can be read")
        else:
            rows += [f"execute: {path}" for path in self.allowed_executables]
        rows.append(f"env: {' '.join(self.env) or 'only PATH HOME LANG TMPDIR'}")
        if self.workspace is not None:
            rows.append(f"workspace (a copy, dropped afterwards): {self.workspace}")
        start = self.workspace or "private scratch directory"
        rows.append(f"cwd: {self.cwd or start}")
        rows.append(f"timeout: {self.timeout_s} s")
        rows += [
            f"limit {item.name}: {getattr(self.limits, item.name)}"
            for item in fields(self.limits)
        ]
        rows.append(f"unix sockets: {'yes' if self.allow_unix_sockets else 'none'}")
        if self.include_system:
            rows += [f"system (read): {path}" for path in system_paths(self)]
        return "\n".join(rows)


@lru_cache(maxsize=64)
def _digest(policy: SandboxPolicy) -> str:
    import hashlib

    return hashlib.sha256(policy.to_json().encode()).hexdigest()


def _refuse_unknown(what: str, plain: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(plain) - known)
    if unknown:
        raise SandboxPolicyError(
            f"{what} holds unknown keys {unknown}; known are {sorted(known)}"
        )
