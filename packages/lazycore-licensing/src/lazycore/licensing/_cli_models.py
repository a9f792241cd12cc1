"""The commands ``models check``, ``models accept`` and ``models scan``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from lazycore.licensing._acceptance import accepted_terms
from lazycore.licensing._allowlist import Allowlist
from lazycore.licensing._errors import (
    HashMismatchError,
    ModelNotAllowedError,
    RestrictedLicenseNotAcceptedError,
    RevisionMismatchError,
    SourceError,
)
from lazycore.licensing._hashes import HashCache
from lazycore.licensing._receipts import ReceiptLog
from lazycore.licensing._terminal import printable

if TYPE_CHECKING:
    import argparse

DENIED, REVIEW = 1, 3


def run_check(options: argparse.Namespace) -> int:
    """Say whether a checkpoint may be loaded; 1 when it may not."""
    allowed = Allowlist.load(options.allowlist)
    entry = allowed.find(options.model)
    receipt = None
    if options.receipts and entry is not None:
        receipt = ReceiptLog(options.receipts).find(entry, usage=options.usage)
    try:
        found = allowed.check(
            options.model,
            path=options.path,
            usage=options.usage,
            receipt=receipt,
            strict=options.strict,
            accept_restricted_licenses=accepted_terms(),
            hash_cache=HashCache(options.hash_cache) if options.hash_cache else None,
        )
    except (
        HashMismatchError,
        ModelNotAllowedError,
        RestrictedLicenseNotAcceptedError,
        RevisionMismatchError,
    ) as error:
        if options.json:
            kind = type(error).__name__
            print(json.dumps({"allowed": False, "error": kind, "message": str(error)}))
        else:
            print(f"DENY  {printable(str(error).partition(chr(10))[0])}")
            for line in str(error).splitlines()[1:]:
                print(printable(line))
            if isinstance(error, RestrictedLicenseNotAcceptedError):
                print("  or record it: lazycore-licensing models accept, --receipts")
        return DENIED
    if options.json:
        row = {"allowed": True, "id": found.model_id, "license": found.license}
        print(json.dumps({**row, "tier": int(found.tier), "revision": found.revision}))
    else:
        print(
            f"ALLOW  {printable(found.model_id)}: {found.license}, tier "
            f"{int(found.tier)}, for {options.usage}"
        )
    return 0


def run_accept(options: argparse.Namespace) -> int:
    """Record that somebody accepts the terms of a listed checkpoint."""
    if not options.receipts:
        raise SourceError("models accept needs --receipts FILE to record it in")
    entry = Allowlist.load(options.allowlist).find(options.model)
    if entry is None:
        print(f"lazycore-licensing: {options.model} is not listed", file=sys.stderr)
        return DENIED
    log = ReceiptLog(options.receipts)
    receipt = log.accept(entry, usage=options.usage, by=options.by)
    if options.json:
        print(receipt.to_json())
    else:
        print(f"recorded: {printable(entry.model_id)} for {receipt.usage}")
        for condition in entry.conditions:
            print(f"  condition: {printable(condition)}")
        print(f"  receipt {receipt.digest}")
    return 0


def run_scan(options: argparse.Namespace) -> int:
    """Show what a model folder states; 3 when something is to be reviewed."""
    from lazycore.licensing._model_folder import read_model_folder

    facts = read_model_folder(options.path)
    notes = list(facts.problems)
    if facts.remote_code:
        notes.append("loading it runs Python from its repository (auto_map)")
    if facts.pickle_only:
        notes.append("its weights exist only in formats that run code when loaded")
    if facts.license is None:
        notes.append("no single licence is stated")
    if options.json:
        names = (
            *("model_id", "revision", "license", "license_tag", "license_link"),
            "terms_sha256",
        )
        row: dict[str, object] = {name: getattr(facts, name) for name in names}
        row |= {"base_models": list(facts.base_models), "notes": notes}
        print(json.dumps(row, indent=2))
    else:
        print(f"licence   {printable(facts.license or 'unknown')}")
        print(f"model     {printable(facts.model_id or '-')}")
        print(f"revision  {facts.revision or '-'}")
        if facts.terms_sha256:
            print(f"terms     sha256:{facts.terms_sha256}")
        for base in facts.base_models:
            print(f"base      {printable(base)}")
        for note in notes:
            print(f"review    {printable(note)}")
    return REVIEW if notes else 0


def run_look_up(options: argparse.Namespace) -> int:
    """Ask the hub about a checkpoint; print an allowlist entry to review."""
    from lazycore.licensing._hub_lookup import look_up_model, propose_entry

    facts = look_up_model(options.model, endpoint=options.endpoint)
    entry = propose_entry(facts)
    print(
        "# A proposal: read the terms, add reviewed-by, then put it in the allowlist."
    )
    print(Allowlist([entry]).to_toml(), end="")
    return REVIEW if facts.problems or facts.license is None else 0
