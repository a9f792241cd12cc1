"""The Seatbelt profile says what the policy says, read by an evaluator of our own.

This proves the translation from policy to SBPL. It proves nothing about a macOS
kernel: none has run the profile in this release.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lazycore.sandbox._errors import SandboxPolicyError
from lazycore.sandbox._macos._profile import Grants, Profile, build_profile

pytestmark = pytest.mark.once

Form: TypeAlias = "str | list[Form]"
TOKEN = re.compile(
    r"""\s+ | ;[^\n]* | (?P<raw>\#"[^"]*") | (?P<text>"(?:[^"\\]|\\.)*")
      | (?P<paren>[()]) | (?P<atom>[^\s()";]+)""",
    re.VERBOSE,
)


def read_forms(text: str) -> list[Form]:
    """Read SBPL into nested lists; strings keep a leading quote mark."""
    stack: list[list[Form]] = [[]]
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match is not None, f"no token at {text[at : at + 20]!r}"
        at = match.end()
        if match["paren"] == "(":
            stack.append([])
        elif match["paren"] == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif match["raw"]:
            stack[-1].append('"' + match["raw"][2:-1])
        elif match["text"]:
            stack[-1].append('"' + re.sub(r"\\(.)", r"\1", match["text"][1:-1]))
        elif match["atom"]:
            stack[-1].append(match["atom"])
    assert len(stack) == 1, "unbalanced parentheses"
    return stack[0]


class Evaluator:
    """Decides like the kernel is said to: the last rule that matches wins."""

    def __init__(self, profile: Profile) -> None:
        self.parameters = dict(profile.parameters)
        self.default = ""
        self.rules: list[tuple[str, list[str], list[Form]]] = []
        for form in read_forms(profile.text):
            assert isinstance(form, list)
            head, *rest = form
            if head == "version":
                assert rest == ["1"]
            elif rest == ["default"]:
                self.default = str(head)
            else:
                assert head in {"allow", "deny"}
                operations = [str(item) for item in rest if isinstance(item, str)]
                filters: list[Form] = [x for x in rest if not isinstance(x, str)]
                self.rules.append((str(head), operations, filters))

    def allows(self, operation: str, **facts: str) -> bool:
        verdict = self.default
        for action, operations, filters in self.rules:
            if any(matches(pattern, operation) for pattern in operations) and (
                not filters or any(self.holds(item, facts) for item in filters)
            ):
                verdict = action
        return verdict == "allow"

    def holds(self, form: Form, facts: dict[str, str]) -> bool:  # noqa: C901
        assert isinstance(form, list)
        head, *rest = form
        match head:
            case "require-all":
                return all(self.holds(item, facts) for item in rest)
            case "require-any":
                return any(self.holds(item, facts) for item in rest)
            case "require-not":
                return not any(self.holds(item, facts) for item in rest)
            case "literal":
                return facts.get("path") == self.value(rest[0])
            case "subpath":
                root = self.value(rest[0])
                path = facts.get("path", "")
                return path == root or path.startswith(root.rstrip("/") + "/")
            case "regex" | "ipc-posix-name-regex":
                fact = facts.get("path" if head == "regex" else "name", "")
                return re.search(self.value(rest[0]), fact) is not None
            case "sysctl-name-prefix":
                return facts.get("sysctl", "").startswith(self.value(rest[0]))
            case "remote" | "local":
                # "*:*" stands for every address, mapped ones included.
                assert rest == ["ip", '"*:*']
                return facts.get(str(head)) == "ip"
            case "target" | "socket-domain" | "mac-syscall-number":
                return facts.get(str(head)) == rest[0]
            case "sysctl-name" | "global-name" | "mac-policy-name":
                return facts.get(str(head)) == self.value(rest[0])
        raise AssertionError(f"a filter this evaluator does not know: {head}")

    def value(self, form: Form) -> str:
        if isinstance(form, list):
            head, name = form
            assert head == "param"
            return self.parameters[str(name)[1:]]
        assert form.startswith('"')
        return form[1:]


def matches(pattern: str, operation: str) -> bool:
    if pattern.endswith("*"):
        return operation.startswith(pattern[:-1])
    return pattern == operation


GRANTS = Grants(
    read=("/private/data", "/usr"),
    write=("/private/work",),
    denied=("/private/work/deep/secret", "/usr/hidden"),
    executables=None,
    scratch="/private/var/folders/xy/scratch-1",
    mark="/private/var/folders/xy/scratch-1/mark-1",
    allow_network=False,
    allow_unix_sockets=False,
)
DEVICES = {"/dev/null", "/dev/zero"}
READABLE = {"/", *DEVICES, "/dev/random", "/dev/urandom"}
TRAVERSED = {"/etc", "/tmp", "/var", "/private"}


def under(path: str, roots: tuple[str, ...]) -> bool:
    place = PurePosixPath(path)
    return any(place.is_relative_to(root) for root in roots)


def above(path: str, roots: tuple[str, ...]) -> bool:
    place = PurePosixPath(path)
    return any(place in PurePosixPath(root).parents for root in roots)


def policy_allows(  # noqa: C901 - one arm per operation
    grants: Grants, operation: str, path: str
) -> bool:
    """Read the policy directly, with path objects and no profile in between."""
    write = (*grants.write, grants.scratch)
    trees = (*grants.read, *write)
    programs = grants.executables or ()
    device = under(path, ("/dev/fd",))
    if under(path, (*grants.denied, grants.mark)):
        return False
    match operation:
        case "file-read-data":
            if path in READABLE or device or path in programs:
                return True
            return under(path, trees)
        case "file-read-metadata":
            if path in TRAVERSED or above(path, (*trees, *programs)):
                return True
            return policy_allows(grants, "file-read-data", path)
        case "file-write-data":
            return under(path, write) or path in DEVICES or device
        case "file-write-create" | "file-link":
            return under(path, write)
        case "file-write-unlink":
            return (
                under(path, write)
                and path not in write
                and not above(path, grants.denied)
            )
        case "file-write-setugid":
            return False
        case "process-exec":
            if grants.executables is not None:
                return path in grants.executables
            return under(path, trees)
    raise AssertionError(operation)


OPERATIONS = [
    "file-read-data",
    "file-read-metadata",
    "file-write-data",
    "file-write-create",
    "file-write-unlink",
    "file-write-setugid",
    "file-link",
    "process-exec",
]
names = st.sampled_from(
    [
        *("a", "ab", "A", "a b", 'a"', 'a"b', "(deny", ")", '#"x', "*", "[x]", ";"),
        *("\\", "a\\", "$", "%s", "..x", ".git", "e\u0301", "\u00e9", "\U0001f40d"),
    ]
)
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
some = st.lists(paths, max_size=3, unique=True).map(tuple)
grants = st.builds(
    lambda read, write, denied, executables, scratch, network, sockets: Grants(
        read=read,
        write=write,
        denied=denied,
        executables=executables,
        scratch=scratch,
        mark=scratch + "/mark",
        allow_network=network,
        allow_unix_sockets=sockets,
    ),
    some,
    some,
    some,
    st.one_of(st.none(), some),
    paths.map(lambda path: "/private/var/folders" + path),
    st.booleans(),
    st.booleans(),
)
roots_of = st.sampled_from(["/dev/null", "/dev/fd/3", "/", "/etc", "/private", "/var"])


@st.composite
def questions(draw: st.DrawFn, given_grants: Grants) -> str:
    known = (
        *given_grants.read,
        *given_grants.write,
        *given_grants.denied,
        *(given_grants.executables or ()),
        given_grants.scratch,
        given_grants.mark,
    )
    root = draw(st.sampled_from(known))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return root
    if kind == 1:
        return root + draw(paths)
    if kind == 2:
        return root + draw(names)
    if kind == 3:
        return str(PurePosixPath(root).parent)
    if kind == 4:
        return root.swapcase()
    return draw(st.one_of(paths, roots_of))


def agree(data: st.DataObject, questions_each: int) -> None:
    drawn = data.draw(grants)
    evaluator = Evaluator(build_profile(drawn))
    for _ in range(questions_each):
        path = data.draw(questions(drawn))
        for operation in OPERATIONS:
            assert evaluator.allows(operation, path=path) == policy_allows(
                drawn, operation, path
            ), (operation, path)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_profile_and_the_policy_agree_on_hostile_paths(
    data: st.DataObject,
) -> None:
    agree(data, 10)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_profile_and_the_policy_agree_on_a_hundred_thousand_paths(
    data: st.DataObject,
) -> None:
    agree(data, 20)


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4))
@settings(deadline=None)
def test_no_path_reaches_the_text_of_a_profile(parts: list[str]) -> None:
    path = str(PurePosixPath("/", *(part.strip("/.") or "x" for part in parts)))
    try:
        profile = build_profile(replace(GRANTS, read=(path,)))
    except SandboxPolicyError:
        return
    plain = build_profile(replace(GRANTS, read=("/private/data",)))
    # Only the ancestors, which the count of names depends on, may differ.
    assert path in dict(profile.parameters).values()
    assert read_forms(profile.text)[:12] == read_forms(plain.text)[:12]
    assert not re.search(
        r'\((?:literal|subpath) "(?!/(?:dev|etc|tmp|var|private|"))', profile.text
    )


@pytest.mark.parametrize("path", ["/a\nb", "/a\0b", "/a\x7fb", "/a\udcffb"], ids=ascii)
def test_a_path_that_no_profile_can_name_is_refused(path: str) -> None:
    with pytest.raises(SandboxPolicyError, match="no Seatbelt profile can name"):
        build_profile(replace(GRANTS, write=(path,)))


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        ("network-outbound", {"remote": "ip"}),
        ("network-bind", {"local": "ip"}),
        ("network-inbound", {"local": "ip"}),
        ("network-outbound", {"path": "/private/var/run/mDNSResponder"}),
        ("network-outbound", {"path": "/private/work/sock"}),
        ("system-socket", {"socket-domain": "AF_UNIX"}),
        ("system-socket", {"socket-domain": "AF_SYSTEM"}),
    ],
)
def test_network_is_closed_unless_the_policy_opens_it(
    operation: str, facts: dict[str, str]
) -> None:
    assert not Evaluator(build_profile(GRANTS)).allows(operation, **facts)


def test_an_open_network_leaves_unix_sockets_closed() -> None:
    evaluator = Evaluator(build_profile(replace(GRANTS, allow_network=True)))
    assert evaluator.allows("network-outbound", remote="ip")
    assert evaluator.allows("network-inbound", local="ip")
    assert not evaluator.allows("network-outbound", path="/private/work/sock")
    assert not evaluator.allows("network-bind", path="/private/work/sock")


def test_open_unix_sockets_leave_the_network_and_hidden_sockets_closed() -> None:
    evaluator = Evaluator(build_profile(replace(GRANTS, allow_unix_sockets=True)))
    assert evaluator.allows("network-outbound", path="/private/work/sock")
    assert evaluator.allows("network-outbound", path="/private/data/sock")
    assert evaluator.allows("network-bind", path="/private/work/sock")
    for path in ("/private/var/run/docker.sock", "/private/work/deep/secret/sock"):
        assert not evaluator.allows("network-outbound", path=path)
    assert not evaluator.allows("network-bind", path="/private/data/sock")
    for facts in ({"remote": "ip"}, {"local": "ip"}):
        for operation in ("network-outbound", "network-bind", "network-inbound"):
            assert not evaluator.allows(operation, **facts)


@pytest.mark.parametrize(
    ("operation", "facts"),
    [
        ("mach-lookup", {"global-name": "com.apple.coreservices.launchservicesd"}),
        ("mach-register", {"global-name": "x"}),
        ("mach-priv-task-port", {"target": "others"}),
        ("process-info-pidinfo", {"target": "others"}),
        ("signal", {"target": "others"}),
        ("sysctl-read", {"sysctl-name": "kern.procargs2"}),
        ("sysctl-write", {"sysctl-name": "hw.ncpu"}),
        ("ipc-posix-shm-read-data", {"name": "/shared"}),
        ("ipc-posix-sem", {"name": "/other"}),
        ("ipc-sysv-shm", {}),
        ("appleevent-send", {}),
        ("lsopen", {}),
        ("file-mount", {"path": "/private/work"}),
        ("iokit-open", {}),
        ("system-privilege", {}),
        ("job-creation", {}),
    ],
)
def test_the_ways_around_the_file_rules_are_closed(
    operation: str, facts: dict[str, str]
) -> None:
    assert not Evaluator(build_profile(GRANTS)).allows(operation, **facts)


def test_a_run_may_signal_and_inspect_itself_only() -> None:
    evaluator = Evaluator(build_profile(GRANTS))
    assert evaluator.allows("signal", target="same-sandbox")
    assert evaluator.allows("process-info-pidinfo", target="same-sandbox")


def test_the_root_directory_is_readable_and_its_neighbours_are_not() -> None:
    evaluator = Evaluator(build_profile(GRANTS))
    assert evaluator.allows("file-read-data", path="/")
    assert not evaluator.allows("file-read-data", path="/Users")
    assert not evaluator.allows("file-read-metadata", path="/private/other")


def test_the_mark_tells_a_run_from_every_other() -> None:
    evaluator = Evaluator(build_profile(GRANTS))
    assert evaluator.allows("file-write-data", path=GRANTS.scratch + "/any")
    assert not evaluator.allows("file-read-data", path=GRANTS.mark)
    other = replace(GRANTS, scratch="/private/var/folders/xy/scratch-2", mark="/m")
    assert not Evaluator(build_profile(other)).allows(
        "file-write-data", path=GRANTS.scratch + "/any"
    )


def test_denials_come_after_every_allowance() -> None:
    rules = Evaluator(build_profile(GRANTS)).rules
    first_denial = next(at for at, rule in enumerate(rules) if rule[0] == "deny")
    assert all(action == "deny" for action, _, _ in rules[first_denial:])
