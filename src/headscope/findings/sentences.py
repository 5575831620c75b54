"""One plain sentence for each finding: what was measured, in words that need no table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headscope.findings.claims import Claim
from headscope.measures.block_sums import BlockSums, View
from headscope.measures.derived import ratio
from headscope.measures.quantities import QUANTITIES

if TYPE_CHECKING:
    from headscope.findings.floor import Untrained
    from headscope.findings.verdicts import Finding


def in_words(
    claim: Claim, finding: Finding, sums: BlockSums, tau: float, share: float | None, untrained: Untrained | None
) -> str:
    """What was found for this claim."""
    if math.isnan(finding.value):
        return f"It cannot be told: {finding.reason}."
    sentences = [_measured(claim, finding, sums, tau), _judged(claim, finding)]
    if share is not None:
        sentences.append(f"Each taken by itself, {share:.0%} of the texts show it.")
    if untrained is not None:
        words = untrained.words
        sentences.append(f"{words[0].upper()}{words[1:]}.")
    return " ".join(sentences)


def _measured(claim: Claim, finding: Finding, sums: BlockSums, tau: float) -> str:
    value, final = finding.value, _layers(sums, "final")
    inside = f"In {final[0].lower()}{final[1:]}"
    if claim.key in ("1a", "1b"):
        whom, name = ("sentence stops", "stop_focus") if claim.key == "1a" else ("closing special tokens", "end_focus")
        return (
            f"{final} give {whom} {value:.2f} times the attention that an even spread would"
            f"{_by_layer(sums, name, tau)}."
        )
    if claim.key == "2":
        return (
            f"Of the variance of repetition preference and distance over heads and blocks of texts, {value:.0%} lies "
            "between the heads of a layer; the more texts in a block, the larger it comes out."
        )
    if claim.key == "3":
        way = "farther apart" if value >= 0 else "closer together"
        return (
            f"Similar tokens lie {way} in the early than in the middle layers, by {abs(value):.1%} of the mean "
            f"distance of any two{_by_layer(sums, 'distance', tau)}."
        )
    if claim.key == "4":
        return (
            f"{inside} two words of one sentence are {value:.2f} times as likely to be similar as two of different "
            f"sentences at the same distance{_by_layer(sums, 'sentence_preference', tau)}."
        )
    if claim.key == "5":
        number, expected, windows = (each.sum(0) for each in View(sums, "layer", tau).focal())
        unique, chance = (ratio(each, windows).mean() for each in (number, expected))
        how = f"{value:.2f} more than" if value > 0 else f"{-value:.2f} fewer than"
        return (
            f"The {sums.heads} heads of a layer have {unique:.1f} different focal tokens, where drawing them by "
            f"frequency alone would give {chance:.1f}: {how} chance."
        )
    if claim.key == "6":
        way = "higher" if value >= 0 else "lower"
        return (
            f"Pairs of two tokens that receive much attention are {way} in level by {abs(value):.3f} than pairs of two "
            "that do not."
        )
    if claim.key == "7":
        return f"Similarity and attention correlate by {1 - value:.2f} over the pairs, which is {value:.2f} short of 1."
    return (
        f"{inside} a sentence stop and another token are {value:.2f} times as likely to be similar as two words at the "
        f"same distance{_by_layer(sums, 'separator_similarity', tau)}."
    )


def _by_layer(sums: BlockSums, name: str, tau: float) -> str:
    """Where a quantity is greatest, and what it is in the last layer: a third of the depth may hide both."""
    values = QUANTITIES[name].value(View(sums, "layer", tau))
    if len(values) < 2 or not np.isfinite(values).all():
        return ""
    most = int(values.argmax())
    last = f"{values[-1]:.2f} in the last"
    return f" (by layer, {values[most]:.2f} at most, in layer {sums.layers[most]}; {last})"


def _judged(claim: Claim, finding: Finding) -> str:
    if finding.reason:
        return f"No verdict: {finding.reason}."
    bound = f"{claim.bound:g}"
    if finding.verdict == "holds":
        return f"The whole interval lies beyond {bound}: the claim holds."
    if finding.verdict == "does not hold":
        return f"The whole interval lies short of {bound}: the claim does not hold."
    able = "" if finding.can_tell else " These texts are too few or too varied to tell an effect twice as large."
    return f"The interval reaches across {bound}: open.{able}"


def _layers(sums: BlockSums, third: str) -> str:
    numbers = [sums.layers[place] for place in sums.third(third)]
    if not numbers:
        return f"The {third} layers"
    return f"The {third} layers ({listed(numbers)})" if len(numbers) > 1 else f"Layer {numbers[0]}"


def listed(numbers: list[int]) -> str:
    """Numbers with runs taken together.

    >>> listed([0, 1, 2, 5])
    '0 to 2, 5'
    """
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]} to {part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
