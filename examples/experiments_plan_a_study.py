"""Choose the number of units before a study runs, not after."""

from __future__ import annotations

from lazycore.experiments import minimum_detectable_effect

WANTED = 0.02
DISAGREE = 0.10


def units_for(effect: float, *, disagree: float, comparisons: int) -> int:
    """Return how many units show an effect of a binary metric with 80 % power."""
    units = 1
    while (
        minimum_detectable_effect(units, sd=disagree**0.5, alpha=0.05 / comparisons)
        > effect
    ):
        units += 1
    return units


def main() -> None:
    """Print the units that one comparison and a family of four need."""
    for comparisons in (1, 4):
        units = units_for(WANTED, disagree=DISAGREE, comparisons=comparisons)
        print(
            f"{comparisons} comparison(s): {units:,} units show {100 * WANTED:.0f} pp "
            f"where the arms disagree on {100 * DISAGREE:.0f} % of them"
        )


if __name__ == "__main__":
    main()
