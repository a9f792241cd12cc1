"""What can go wrong: one root, and beside it the builtin a caller expects."""

from __future__ import annotations


class LicensingError(Exception):
    """The root of every error of this slice.

    Examples:
        >>> issubclass(ExpressionError, LicensingError)
        True
    """


class ExpressionError(LicensingError, ValueError):
    """A text is not a licence expression.

    Attributes:
        text: The text, at most 200 characters of it.
        position: Offset of the fault in the text, in characters.

    Examples:
        >>> from lazycore.licensing import parse
        >>> try:
        ...     parse("MIT and (")
        ... except ValueError as error:
        ...     error.position
        8
    """

    def __init__(self, message: str, *, text: str, position: int) -> None:
        shown = text if len(text) <= 200 else f"{text[:197]}..."
        super().__init__(f"{message} (at character {position} of {shown!r})")
        self.text = shown
        self.position = position


class AllowlistFormatError(LicensingError, ValueError):
    """An allowlist entry can't be held: a field is missing, malformed or double.

    Examples:
        >>> from lazycore.licensing import ModelLicenseEntry
        >>> try:
        ...     ModelLicenseEntry(model_id="org/x", license="CC-BY-NC-4.0", tier=1)
        ... except AllowlistFormatError as error:
        ...     "tier 1 does not admit" in str(error)
        True
    """


class ModelNotAllowedError(LicensingError, LookupError):
    """A checkpoint is not in the allowlist.

    Examples:
        >>> from lazycore.licensing import Allowlist
        >>> try:
        ...     Allowlist().check("org/x")
        ... except LookupError as error:
        ...     type(error).__name__
        'ModelNotAllowedError'
    """


class RevisionMismatchError(LicensingError, ValueError):
    """A checkpoint was asked for at another revision than the reviewed one.

    Examples:
        >>> from lazycore.licensing import Allowlist, ModelLicenseEntry
        >>> entry = ModelLicenseEntry(model_id="org/x", license="MIT", tier=1)
        >>> try:
        ...     Allowlist([entry]).check("org/x@main", strict=True)
        ... except RevisionMismatchError as error:
        ...     "main can move" in str(error)
        True
    """


class RestrictedLicenseNotAcceptedError(LicensingError):
    """A Tier 2 checkpoint was asked for without accepting its licence.

    Deliberately no ``OSError``: a handler for failed downloads must not swallow it.

    Examples:
        >>> issubclass(RestrictedLicenseNotAcceptedError, OSError)
        False
    """


class LicenseDeniedError(LicensingError):
    """A verdict is DENY and the caller asked for an error.

    Examples:
        >>> from lazycore.licensing import assess
        >>> try:
        ...     assess("SSPL-1.0", usage="distributed").check()
        ... except LicenseDeniedError as error:
        ...     "is denied for distributed" in str(error)
        True
    """


class PolicyError(LicensingError, ValueError):
    """A policy file has an unknown key, a wrong value or lacks a reason.

    Examples:
        >>> issubclass(PolicyError, ValueError)
        True
    """


class SourceError(LicensingError, ValueError):
    """An input of an audit (lock, environment, bill of materials) can't be read.

    Examples:
        >>> from lazycore.licensing import read_conda
        >>> try:
        ...     read_conda("/nowhere")
        ... except SourceError as error:
        ...     "no conda package" in str(error)
        True
    """


class TermsChangedError(RestrictedLicenseNotAcceptedError):
    """An acceptance names other terms than the entry does now.

    Examples:
        >>> issubclass(TermsChangedError, RestrictedLicenseNotAcceptedError)
        True
    """


class HashMismatchError(LicensingError, ValueError):
    """A file of a model is missing or has other bytes than its pin.

    Examples:
        >>> issubclass(HashMismatchError, ValueError)
        True
    """


class TierConflictError(LicensingError, ValueError):
    """Two allowlists disagree about one checkpoint.

    Examples:
        >>> from lazycore.licensing import Allowlist, ModelLicenseEntry
        >>> mild = ModelLicenseEntry(model_id="org/x", license="MIT", tier=1)
        >>> hard = ModelLicenseEntry(model_id="org/x", license="MIT", tier=2)
        >>> lists = [Allowlist([mild]), Allowlist([hard])]
        >>> try:
        ...     Allowlist.merge(*lists)
        ... except TierConflictError as error:
        ...     "tier is 1" in str(error)
        True
    """


class ReceiptError(LicensingError, ValueError):
    """A receipt file is damaged: its hash chain does not hold.

    Examples:
        >>> issubclass(ReceiptError, ValueError)
        True
    """


class ReaderError(LicensingError, ValueError):
    """A model file is not what its name says, or exceeds a limit.

    Examples:
        >>> issubclass(ReaderError, ValueError)
        True
    """


class MissingExtraError(LicensingError, ImportError):
    """An optional library that the call needs is not installed.

    Examples:
        >>> issubclass(MissingExtraError, ImportError)
        True
    """
