"""What can go wrong: one root, and beside it the builtin a caller expects."""

from __future__ import annotations


class LicensingError(Exception):
    """The root of every error of this slice."""


class ExpressionError(LicensingError, ValueError):
    """A text is not a licence expression.

    Attributes:
        text: The text, at most 200 characters of it.
        position: Offset of the fault in the text, in characters.
    """

    def __init__(self, message: str, *, text: str, position: int) -> None:
        shown = text if len(text) <= 200 else f"{text[:197]}..."
        super().__init__(f"{message} (at character {position} of {shown!r})")
        self.text = shown
        self.position = position


class AllowlistFormatError(LicensingError, ValueError):
    """An allowlist entry can't be held: a field is missing, malformed or double."""


class ModelNotAllowedError(LicensingError, LookupError):
    """A checkpoint is not in the allowlist."""


class RevisionMismatchError(LicensingError, ValueError):
    """A checkpoint was asked for at another revision than the reviewed one."""


class RestrictedLicenseNotAcceptedError(LicensingError):
    """A Tier 2 checkpoint was asked for without accepting its licence.

    Deliberately no ``OSError``: a handler for failed downloads must not swallow it.
    """


class LicenseDeniedError(LicensingError):
    """A verdict is DENY and the caller asked for an error."""


class PolicyError(LicensingError, ValueError):
    """A policy file has an unknown key, a wrong value or lacks a reason."""


class SourceError(LicensingError, ValueError):
    """An input of an audit (lock, environment, bill of materials) can't be read."""


class TermsChangedError(RestrictedLicenseNotAcceptedError):
    """An acceptance names other terms than the entry does now."""


class HashMismatchError(LicensingError, ValueError):
    """A file of a model is missing or has other bytes than its pin."""


class TierConflictError(LicensingError, ValueError):
    """Two allowlists disagree about one checkpoint."""


class ReceiptError(LicensingError, ValueError):
    """A receipt file is damaged: its hash chain does not hold."""


class ReaderError(LicensingError, ValueError):
    """A model file is not what its name says, or exceeds a limit."""


class MissingExtraError(LicensingError, ImportError):
    """An optional library that the call needs is not installed."""
