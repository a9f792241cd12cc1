"""Sign what a run did: in-toto statements in DSSE envelopes, ed25519.

One line of ``receipts.dsse.jsonl`` per statement: the run's provenance (SLSA v1),
its outcome (in-toto test result v0.1), then one receipt per cell whose subject is
that cell's journal line. Any tool that reads DSSE checks them without this package.
Formats: DSSE v1.0.2 envelope and pre-authentication encoding; in-toto Statement v1.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazycore.experiments._canonical import canonical, digest, sha256_hex
from lazycore.experiments._errors import (
    ArtifactError,
    CanonicalError,
    ExternalDependencyError,
)
from lazycore.experiments._file_hashes import hash_file
from lazycore.experiments._journal import read_journal
from lazycore.experiments._outcome import leaf_digest
from lazycore.experiments._strict_json import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lazycore.experiments._lock import StudyLock

__all__ = ["RECEIPTS", "Signer", "generate_key", "receipt_findings", "sign_run"]

RECEIPTS = "receipts.dsse.jsonl"
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PROVENANCE = "https://slsa.dev/provenance/v1"
_TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_CELL = "urn:lazycore:experiments:cell:1"
_BUILD_TYPE = "urn:lazycore:experiments:run:1"
_HINT = "pip install 'lazycore-experiments[sign]'"


class Signer:
    """An ed25519 key that signs receipts.

    Args:
        path: Private key, PEM (PKCS #8), as `generate_key` writes it.

    Raises:
        ArtifactError: The file is absent or holds no ed25519 key.
        ExternalDependencyError: cryptography is not installed.

    Examples:
        >>> Signer("no/such/key")  # doctest: +SKIP
        Traceback (most recent call last):
        ...
        lazycore.experiments._errors.ArtifactError: no/such/key: no private key
    """

    def __init__(self, path: str | Path) -> None:
        serialization, ed25519 = _cryptography()
        try:
            data = Path(path).read_bytes()
            key = serialization.load_pem_private_key(data, password=None)
        except (OSError, ValueError, TypeError) as error:
            raise ArtifactError(f"{path}: no private key") from error
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise ArtifactError(f"{path}: not an ed25519 key")
        self._key = key
        self.key_id = _key_id(key.public_key())

    def sign(self, statement: dict[str, Any]) -> bytes:
        """Return a statement's envelope as one line of JSON."""
        payload = canonical(statement)
        signature = self._key.sign(_pre_authentication(payload))
        return canonical(
            {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": _PAYLOAD_TYPE,
                "signatures": [
                    {
                        "keyid": self.key_id,
                        "sig": base64.b64encode(signature).decode(),
                    }
                ],
            }
        )


def generate_key(path: str | Path) -> str:
    """Write a new ed25519 key: private at the path, public beside it as ``.pub``.

    Args:
        path: Where the private key goes, mode 0600; nothing is overwritten.

    Returns:
        The key id.

    Raises:
        ArtifactError: A file is there already.
        ExternalDependencyError: cryptography is not installed.

    Examples:
        >>> len(generate_key("signing.pem"))  # doctest: +SKIP
        64
    """
    serialization, ed25519 = _cryptography()
    key = ed25519.Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for file, data, mode in (
        (Path(path), private, 0o600),
        (Path(f"{path}.pub"), public, 0o644),
    ):
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError as error:
            raise ArtifactError(f"{file}: is there already; choose another") from error
        with os.fdopen(descriptor, "wb") as sink:
            sink.write(data)
    return _key_id(key.public_key())


def sign_run(folder: Path, lock: StudyLock, signer: Signer) -> None:
    """Write the receipts of a run, whole or not at all."""
    partial = folder / f".{RECEIPTS}.partial"
    with partial.open("wb") as file:
        for statement in _statements(folder, lock):
            file.write(signer.sign(statement) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(folder / RECEIPTS)


def receipt_findings(folder: Path, lock: StudyLock, public_key: Path) -> list[str]:
    """Return what is wrong with a run's receipts: one line per record.

    Each signature is checked, and each statement must be the one that the run
    folder implies now, so a change of either is found.
    """
    serialization, ed25519 = _cryptography()
    path = folder / RECEIPTS
    if not path.is_file():
        return [f"{path}: missing; the run was not signed"]
    try:
        key = serialization.load_pem_public_key(public_key.read_bytes())
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{public_key}: no public key") from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise ArtifactError(f"{public_key}: not an ed25519 key")
    findings = []
    expected = _statements(folder, lock)
    count = 0
    with path.open("rb") as file:
        for count, line in enumerate(file, 1):
            where = f"{path}: record {count - 1}"
            wanted = next(expected, None)
            payload = _verified(line, key)
            if payload is None:
                findings.append(f"{where}: the signature does not hold")
            elif wanted is None or payload != canonical(wanted):
                findings.append(f"{where}: does not describe this run")
    missing = sum(1 for _ in expected)
    if missing:
        findings.append(f"{path}: {missing} receipts are missing after {count}")
    return findings


def _verified(line: bytes, key: Any) -> bytes | None:
    from cryptography.exceptions import InvalidSignature

    try:
        envelope = parse(line.rstrip(b"\n"))
        if canonical(envelope) + b"\n" != line:
            return None
        payload = base64.b64decode(envelope["payload"], validate=True)
        (signature,) = envelope["signatures"]
        if envelope["payloadType"] != _PAYLOAD_TYPE or len(envelope) != 3:
            return None
        if signature.keys() != {"keyid", "sig"} or signature["keyid"] != _key_id(key):
            return None
        sig = base64.b64decode(signature["sig"], validate=True)
        key.verify(sig, _pre_authentication(payload))
    except (CanonicalError, InvalidSignature, KeyError, TypeError, ValueError):
        return None
    except AttributeError:  # the envelope is no object
        return None
    return payload


def _pre_authentication(payload: bytes) -> bytes:
    kind = _PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _key_id(public: Any) -> str:
    """Return the id that securesystemslib gives a key by default."""
    value = {"public": public.public_bytes_raw().hex()}
    return digest({"keytype": "ed25519", "scheme": "ed25519", "keyval": value})


def _statements(folder: Path, lock: StudyLock) -> Iterator[dict[str, Any]]:
    journal = folder / "journal.jsonl"
    session: dict[str, Any] = {}
    end: dict[str, Any] = {}
    order: dict[str, Any] | None = None
    for record in read_journal(journal):
        if record.type == "session":
            session = record.body
        elif record.type == "order":
            order = {
                key: record.body[key] for key in ("checked", "differing", "failed")
            }
        elif record.type == "end":
            end = record.body
    run = [
        {"name": "lock.json", "digest": {"sha256": lock.digest}},
        {"name": "journal.jsonl", "digest": {"sha256": hash_file(journal)}},
        {"name": "results", "digest": {"sha256": end["results"]}},
    ]
    document = lock.document
    materials = [
        ("snapshot", document["tree"]["sha256"]),
        ("interpreter", digest(document["interpreter"])),
        ("environment", digest(document["environment"])),
        ("inventory", digest(document["inventory"])),
        ("sdk", digest(document["sdk"])),
    ]
    yield _statement(
        run,
        _PROVENANCE,
        {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": {"study": lock.study.id, "mode": session["mode"]},
                **({} if order is None else {"internalParameters": {"order": order}}),
                "resolvedDependencies": [
                    {"name": name, "digest": {"sha256": value}}
                    for name, value in materials
                ],
            },
            "runDetails": {
                "builder": {
                    "id": _BUILD_TYPE,
                    "version": session["versions"],
                },
                "metadata": {"invocationId": document["study_sha256"]},
            },
        },
    )
    failed = end["failed"] > 0 or end["finished"] < end["planned"]
    yield _statement(
        run,
        _TEST_RESULT,
        {
            "result": "FAILED" if failed else "PASSED",
            "configuration": [{"name": "lock.json", "digest": {"sha256": lock.digest}}],
        },
    )
    with journal.open("rb") as file:
        for record in read_journal(journal):
            if record.type != "cell":
                continue
            file.seek(record.offset)
            line = file.read(record.length)
            yield _cell_statement(record.body, line, lock)


def _cell_statement(
    body: dict[str, Any], line: bytes, lock: StudyLock
) -> dict[str, Any]:
    subject = {"name": f"cell:{body['cell']}", "digest": {"sha256": sha256_hex(line)}}
    arms = {
        name: {
            "status": arm["status"],
            "request": arm["request"],
            "response": arm["response"],
            "resources": arm["resources"],
        }
        for name, arm in body["arms"].items()
    }
    predicate = {
        "lock": lock.digest,
        "mode": lock.study.mode,
        "status": body["status"],
        "values": leaf_digest(body),
        "order": body["order"],
        "arms": arms,
    }
    return _statement([subject], _CELL, predicate)


def _statement(
    subject: list[dict[str, Any]], kind: str, predicate: dict[str, Any]
) -> dict[str, Any]:
    return {
        "_type": _STATEMENT,
        "subject": subject,
        "predicateType": kind,
        "predicate": predicate,
    }


def _cryptography() -> tuple[Any, Any]:  # modules of an optional library
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise ExternalDependencyError(
            f"cryptography is not installed: {_HINT}"
        ) from error
    return serialization, ed25519
