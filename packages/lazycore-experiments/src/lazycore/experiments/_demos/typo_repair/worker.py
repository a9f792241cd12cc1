"""Misspell reviews as people do, repair them or not, ask a frozen sentiment model."""  # noqa: INP001 - a worker file, copied into a study's tree

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import sentiment
from symspellpy import SymSpell, Verbosity

from lazycore.experiments import Reply, Request, serve

if TYPE_CHECKING:
    import random
    import re

data: dict[str, Any] = {}
repaired: dict[str, str] = {}


def load() -> None:
    """Read the reviews, the misspellings, the model and the dictionary."""
    data["reviews"] = sentiment.read_reviews()
    data["misspellings"] = sentiment.read_misspellings()
    data["model"] = sentiment.read_model(Path(__file__).with_name("model.json"))
    dictionary = SymSpell(max_dictionary_edit_distance=2, prefix_length=7)
    path = sentiment.data_file(sentiment.DICTIONARY)
    dictionary.load_dictionary(str(path), term_index=0, count_index=1)
    data["dictionary"] = dictionary


def misspell(text: str, noise: float, draws: random.Random) -> str:
    """Misspell a share of the words that the list of misspellings knows."""
    known = data["misspellings"]

    def change(match: re.Match[str]) -> str:
        word = match[0]
        if word not in known or draws.random() >= noise:
            return word
        wrong: list[str] = known[word]
        return wrong[int(draws.random() * len(wrong))]

    changed: str = sentiment.WORD.sub(change, text)
    return changed


def repair(word: str) -> str:
    """Return the most frequent word within two edits, or the word itself."""
    dictionary = data["dictionary"]
    known: bool = len(word) < 4 or word in dictionary.words
    if known:
        return word
    if word not in repaired:
        found = dictionary.lookup(word, Verbosity.TOP, 2)
        repaired[word] = str(found[0].term) if found else word
    return repaired[word]


def handler(request: Request) -> Reply:
    """Score each unit of the block: one review."""
    units = {}
    for unit in request.units:
        index = sentiment.TRAINED_ON + int(unit.rpartition("-")[2])
        review = data["reviews"][index]
        # The stream does not name the arm: both arms misspell the same words.
        draws = request.stream(unit)
        text = misspell(review.text, request.parameters["noise"], draws)
        changes = []
        if request.parameters["repair"]:
            words = sorted(set(sentiment.WORD.findall(text)))
            changes = [f"{w} > {fixed}" for w in words if (fixed := repair(w)) != w]
            text = sentiment.WORD.sub(lambda match: repair(match[0]), text)
        found = sentiment.is_fresh(text, data["model"])
        units[unit] = Reply(
            {"accuracy": float(found == review.fresh)},
            output={
                "predicted": "fresh" if found else "rotten",
                "actual": "fresh" if review.fresh else "rotten",
                "repaired": changes,
            },
        )
    return Reply(units=units)


if __name__ == "__main__":
    serve(handler, prepare=load)
