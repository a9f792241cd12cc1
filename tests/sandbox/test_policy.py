"""The policy as a value: spelling, contradictions, JSON, digest."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from lazycore.sandbox import ResourceLimits, SandboxPolicy, SandboxPolicyError


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param("data", "relative", id="relative"),
        pytest.param("./data", "relative", id="dot-relative"),
        pytest.param("~/data", "relative", id="tilde"),
        pytest.param("", "empty", id="empty"),
        pytest.param("/a/../b", "'..'", id="parent"),
        pytest.param("/a\0b", "NUL", id="nul"),
        pytest.param("/", "whole file system", id="root"),
        pytest.param("//", "whole file system", id="double-root"),
        pytest.param("/proc", "kernel interface", id="proc"),
        pytest.param("/proc/sys/kernel", "kernel interface", id="in-proc"),
        pytest.param("/sys", "kernel interface", id="sys"),
        pytest.param("/dev/./kvm", "kernel interface", id="in-dev"),
        pytest.param(b"/data", "text", id="bytes"),
        pytest.param(3, "not a path", id="number"),
    ],
)
@pytest.mark.parametrize(
    "role",
    [
        "allowed_read_paths",
        "allowed_write_paths",
        "denied_paths",
        "allowed_executables",
    ],
)
def test_a_path_that_cannot_be_meant_is_refused_by_name(
    role: str, path: object, says: str
) -> None:
    with pytest.raises(SandboxPolicyError, match=says) as caught:
        SandboxPolicy(**{role: [path]})  # type: ignore[arg-type]  # wrong on purpose
    assert role in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("written", "kept"),
    [("/a/b/", "/a/b"), ("//a///b", "/a/b"), ("/a/./b/.", "/a/b"), ("/a b", "/a b")],
)
def test_spellings_of_one_path_become_one(written: str, kept: str) -> None:
    policy = SandboxPolicy(allowed_read_paths=[written, Path(kept)])
    assert policy.allowed_read_paths == (kept,)


def test_one_path_instead_of_a_list_is_refused() -> None:
    with pytest.raises(SandboxPolicyError, match="must be a list"):
        SandboxPolicy(allowed_read_paths="/data")


@pytest.mark.parametrize("value", ["false", 0, 1, None, "no"])
def test_a_flag_that_only_looks_like_one_is_refused(value: object) -> None:
    with pytest.raises(SandboxPolicyError, match="allow_network"):
        SandboxPolicy(value)  # type: ignore[arg-type]  # wrong on purpose


def test_kept_positional_call_form_still_means_the_same() -> None:
    policy = SandboxPolicy(True, ["/a"], ["/b"])
    assert policy.allow_network
    assert policy.allowed_read_paths == ("/a",)
    assert policy.allowed_write_paths == ("/b",)


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_read_paths": ["/a"], "denied_paths": ["/a"]},
        {"allowed_write_paths": ["/a/b"], "denied_paths": ["/a"]},
        {"allowed_read_paths": ["/a"], "denied_paths": ["/a/b"], "cwd": "/a/b/c"},
    ],
    ids=["same", "allow-inside-deny", "cwd-inside-deny"],
)
def test_a_policy_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SandboxPolicyError, match="den"):
        SandboxPolicy(**fields)  # type: ignore[arg-type]  # a table of keywords


def test_a_sibling_with_the_same_beginning_is_no_contradiction() -> None:
    policy = SandboxPolicy(allowed_read_paths=["/a/bc"], denied_paths=["/a/b"])
    assert policy.denied_paths == ("/a/b",)


@pytest.mark.parametrize(
    "env",
    [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "x\0"}, {"A": 1}, {1: "x"}],
)
def test_an_environment_the_kernel_cannot_carry_is_refused(
    env: dict[str, str],
) -> None:
    with pytest.raises(SandboxPolicyError, match="env"):
        SandboxPolicy(env=env)


def test_values_of_the_environment_stay_out_of_repr_and_describe() -> None:
    policy = SandboxPolicy(env={"TOKEN": "s3cret"})
    assert "s3cret" not in repr(policy)
    assert "s3cret" not in policy.describe()
    assert "TOKEN" in policy.describe()


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "5"])
@pytest.mark.parametrize("name", ["cpu_s", "memory_bytes", "processes", "output_bytes"])
def test_a_limit_must_be_a_positive_number(name: str, value: object) -> None:
    with pytest.raises(SandboxPolicyError, match=name):
        ResourceLimits(**{name: value})  # type: ignore[arg-type]  # wrong on purpose


def test_output_is_always_bounded() -> None:
    with pytest.raises(SandboxPolicyError, match="output_bytes"):
        ResourceLimits(output_bytes=None)  # type: ignore[arg-type]  # on purpose


def test_an_unknown_key_in_json_is_refused() -> None:
    with pytest.raises(SandboxPolicyError, match="denied_path"):
        SandboxPolicy.from_json('{"denied_path": ["/a"]}')
    with pytest.raises(SandboxPolicyError, match="cpus"):
        SandboxPolicy.from_json('{"limits": {"cpus": 1}}')


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '"x"', '{"limits": 3}', '{"env": [1]}']
)
def test_json_that_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(SandboxPolicyError):
        SandboxPolicy.from_json(text)


def test_equal_policies_share_hash_and_digest() -> None:
    one = SandboxPolicy(env={"A": "1", "B": "2"}, allowed_read_paths=["/a/"])
    two = SandboxPolicy(env={"B": "2", "A": "1"}, allowed_read_paths=["/a"])
    assert one == two
    assert hash(one) == hash(two)
    assert one.digest == two.digest


def test_each_field_changes_the_digest() -> None:
    base = SandboxPolicy()
    changed = {
        "allow_network": True,
        "allowed_read_paths": ("/a",),
        "allowed_write_paths": ("/a",),
        "denied_paths": ("/a",),
        "allowed_executables": (),
        "env": {"A": "1"},
        "cwd": "/a",
        "timeout_s": 61,
        "limits": ResourceLimits(cpu_s=1),
        "include_system": False,
        "allow_unix_sockets": True,
        "allow_hard_links": True,
    }
    known = {field.name for field in dataclasses.fields(SandboxPolicy)} - {"workspace"}
    assert set(changed) == known
    digests = {
        dataclasses.replace(base, **{name: value}).digest  # type: ignore[arg-type]
        for name, value in changed.items()
    }
    assert len(digests | {base.digest}) == len(changed) + 1


def test_the_digest_of_the_empty_policy_is_the_same_on_every_machine() -> None:
    plain = json.loads(SandboxPolicy().to_json())
    assert plain["timeout_s"] == 60
    assert plain["allow_network"] is False
    assert plain["limits"]["processes"] == 512


def test_describe_lists_the_system_set() -> None:
    assert "system (read): /usr" in SandboxPolicy().describe()
    assert "system (read)" not in SandboxPolicy(include_system=False).describe()
