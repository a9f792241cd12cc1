"""Ask the Hugging Face hub about a checkpoint. The only module that opens a socket."""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lazycore.licensing._errors import MissingExtraError, SourceError
from lazycore.licensing._expression import normalize
from lazycore.licensing._hub import HubLicense, hub_licenses
from lazycore.licensing._model_folder import ModelFacts
from lazycore.licensing._model_ids import is_commit, parse_model_id
from lazycore.licensing._models import COMMERCIAL, ModelLicenseEntry, ModelTier
from lazycore.licensing._weights import PICKLES, SAFE

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 30.0


def look_up_model(
    model_id: str,
    revision: str | None = None,
    *,
    endpoint: str | None = None,
    token: str | None = None,
) -> ModelFacts:
    """Ask the hub what it says about a checkpoint, now. Needs the extra ``hub``.

    Nothing is downloaded but the hub's description: the commit behind the revision,
    the card's licence, its bases, and the hash of each large file.

    Args:
        model_id: ``org/name`` or ``hf:org/name``, with ``@revision`` if need be.
        revision: Branch, tag or commit; the hub's default branch when None.
        endpoint: Address of the hub; None for the public one.
        token: For private checkpoints; no stored token is used.

    Raises:
        MissingExtraError: ``huggingface_hub`` is not installed.
        SourceError: The hub does not answer, or does not know the checkpoint.

    Examples:
        >>> from lazycore.licensing import SourceError
        >>> try:
        ...     look_up_model("ollama:library/x")
        ... except (ImportError, SourceError) as error:
        ...     isinstance(error, ValueError | ImportError)
        True
    """
    try:
        library: Any = import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtraError(
            "looking a model up needs huggingface_hub, which is not installed: "
            "pip install 'lazycore-licensing[hub]'"
        ) from error
    name = parse_model_id(model_id)
    if name.registry != "hf":
        raise SourceError(f"{name}: only models of the Hugging Face hub are looked up")
    try:
        found = library.HfApi(endpoint=endpoint).model_info(
            name.name,
            revision=revision or name.revision,
            files_metadata=True,
            timeout=TIMEOUT_S,
            token=token or False,
        )
    # It raises its own, requests' or httpx's errors, by version.
    except Exception as error:
        text = str(error).strip().partition("\n")[0][:200]
        raise SourceError(
            f"{name}: the hub gave no answer: {type(error).__name__}: {text}"
        ) from error
    return _facts(found)


def _facts(found: Any) -> ModelFacts:
    card = found.card_data.to_dict() if found.card_data is not None else {}
    tags = [*_texts(card.get("license")), *_texts(card.get("license_name"))]
    stated = [tag for tag in tags if tag.lower() not in {"other", "unknown"}]
    problems = []
    if found.gated:
        problems.append(f"access is gated ({found.gated}): its terms ask for consent")
    expressions = list(dict.fromkeys(map(_expression, stated)))
    if len(expressions) > 1:
        problems.append(f"the card names several licences: {', '.join(stated)}")
    files = {
        sibling.rfilename: sibling.lfs.sha256 if sibling.lfs else ""
        for sibling in found.siblings or ()
    }
    suffixes = {PurePosixPath(file).suffix.lower() for file in files}
    links = _texts(card.get("license_link"))
    return ModelFacts(
        model_id=f"hf:{found.id}",
        revision=found.sha if is_commit(found.sha) else None,
        license=expressions[0] if len(expressions) == 1 else None,
        license_tag=stated[0] if stated else next(iter(tags), None),
        license_link=links[0] if links else None,
        base_models=tuple(_texts(card.get("base_model"))),
        remote_code="auto_map" in (found.config or {}) or "custom_code" in found.tags,
        pickle_only=bool(suffixes & PICKLES) and not suffixes & SAFE,
        statements=tuple(("model card", tag) for tag in tags),
        problems=tuple(problems),
        files=tuple(sorted((file, sha) for file, sha in files.items() if sha)),
    )


def _texts(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [text for text in listed if isinstance(text, str) and text]


def _expression(tag: str) -> str | None:
    known = hub_licenses().get(tag.lower())
    expression = normalize(known.expression if known else tag)
    return str(expression) if expression is not None else None


def propose_entry(facts: ModelFacts) -> ModelLicenseEntry:
    """Return an allowlist entry to review: nothing is admitted by proposing it.

    The tier is the one of the licence table, and Tier 2 wherever that is silent.

    Args:
        facts: From `look_up_model` or `read_model_folder`.

    Raises:
        SourceError: The facts name no model.

    Examples:
        >>> from lazycore.licensing import ModelFacts
        >>> facts = ModelFacts(
        ...     model_id="hf:org/tiny",
        ...     revision=None,
        ...     license="LicenseRef-scancode-llama-3.3-license-2024",
        ...     license_tag="llama3.3",
        ...     license_link=None,
        ...     base_models=(),
        ...     remote_code=False,
        ...     pickle_only=False,
        ...     statements=(),
        ...     problems=(),
        ... )
        >>> entry = propose_entry(facts)
        >>> entry.tier.name, entry.conditions[0]
        ('RESTRICTED', 'use: acceptable use policy')
    """
    if facts.model_id is None:
        raise SourceError("the files do not say which model they are; give its id")
    tagged = hub_licenses().get((facts.license_tag or "").lower())
    rows = [*([tagged] if tagged else []), *hub_licenses().values()]
    # Files that disagree leave no licence, and then no tag may stand in for it.
    row = next((one for one in rows if one.expression == facts.license), None)
    tier = ModelTier(row.default_tier) if row and row.default_tier else None
    return ModelLicenseEntry(
        model_id=facts.model_id,
        revision=facts.revision,
        license=facts.license or "NOASSERTION",
        tier=tier or ModelTier.RESTRICTED,
        terms_url=facts.license_link,
        terms_sha256=facts.terms_sha256,
        commercial=row.commercial
        if row and row.commercial in COMMERCIAL
        else "unknown",
        conditions=tuple(_conditions(facts, row)),
        base_models=facts.base_models,
        files=facts.files,
    )


def _conditions(facts: ModelFacts, row: HubLicense | None) -> Iterator[str]:
    yield from row.conditions if row else ()
    if facts.remote_code:
        yield "review: loading it runs Python from its repository"
    if facts.pickle_only:
        yield "review: its weights exist only in formats that run code when loaded"
    for problem in facts.problems:
        yield f"review: {problem}"
