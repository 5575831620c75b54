"""One plain sentence or two for each finding: what was measured and what to make of it, in words that need no table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headscope.errors import listed, numbered
from headscope.findings.checks import FAILS, PASSES, Check, RunNumber
from headscope.findings.claims import PERMUTED, ROTATED, UNTRAINED, Claim
from headscope.findings.numbers import Numbers
from headscope.measures.block_sums import BlockSums
from headscope.measures.quantities import named

if TYPE_CHECKING:
    from headscope.findings.finding import Finding


RUNS = {PERMUTED: "with permuted weights", UNTRAINED: "untrained", ROTATED: "with rotated boundaries of sentences"}


def in_words(claim: Claim, finding: Finding, numbers: Numbers) -> str:
    """What was found for this claim."""
    if math.isnan(finding.value):
        return f"There is no number: {finding.statistics[0].why}."
    measured = _MEASURED[claim.key](finding, numbers)
    beside = "; ".join([*_beside(finding), *_control_runs(finding)])
    if beside:
        measured = f"{measured.removesuffix('.')} ({beside})."
    judged = [_judged(finding), _middle(finding), _nothing_learned(finding)]
    parts = [measured, *judged, _pooled_apart(finding), _both_sides(finding)]
    return " ".join(part for part in parts if part)


# ---------------------------------------------------------------------- what was measured


def _focus(whom: str) -> Callable[[Finding, Numbers], str]:
    def words(finding: Finding, numbers: Numbers) -> str:
        where = layers_of(numbers.sums, "final")
        return f"The typical head of {where} gives {whom} {finding.value:.2f} times the attention of an even spread."

    return words


def _specialise(finding: Finding, numbers: Numbers) -> str:
    repetition, distance = finding.statistics
    return (
        f"Beyond what chance gives, heads of a layer differ by σ = {repetition.value:.3f}, a factor of "
        f"{math.exp(repetition.value):.2f}, in how much they prefer repetitions, and by σ = {distance.value:.3f} of "
        "the mean distance in how far they reach."
    )


def _shorter(finding: Finding, numbers: Numbers) -> str:
    way = "farther apart" if finding.value >= 0 else "closer together"
    return (
        f"In the typical head similar tokens lie {way} in the early than in the middle layers, by "
        f"{abs(finding.value):.1%} of the mean distance of any two."
    )


def _sentence(finding: Finding, numbers: Numbers) -> str:
    return (
        f"To the typical head of {layers_of(numbers.sums, 'final')} two words of one sentence are {finding.value:.2f} "
        "times as likely to be similar as two of different sentences at the same distance."
    )


def _different(finding: Finding, numbers: Numbers) -> str:
    unique, null = (float(numbers.by(named(name), "model").value) for name in ("focal_unique", "focal_null"))
    way = "more" if finding.value >= 0 else "fewer"
    return (
        f"The {numbers.sums.heads} heads of a layer have {unique:.2f} different focal tokens, where chance gives "
        f"{null:.2f}: {abs(unique - null):.2f} {way}, which is {abs(finding.value):.1%} of the heads."
    )


def _mask(finding: Finding, numbers: Numbers) -> str:
    return (
        "Of a pair of tokens that both receive much attention, and a pair at the same distance of which neither does, "
        f"the first has the higher S in {finding.value:.0%} of comparisons."
    )


def _unlike(finding: Finding, numbers: Numbers) -> str:
    return (
        f"In the typical head similarity correlates with attention by {1 - finding.value:.2f} over the pairs, which is "
        f"{finding.value:.2f} short of 1."
    )


def _told_apart(pairs: str, contrast: str) -> Callable[[Finding, Numbers], str]:
    def words(finding: Finding, numbers: Numbers) -> str:
        by_similarity = float(numbers.by(named(f"separation_{contrast}"), "model").value)
        way = "leads the better attention map" if finding.value >= 0 else "lags behind the better attention map"
        return (
            f"In the typical head one of the {pairs} has a higher S than an unrelated pair at the same distance in "
            f"{by_similarity:.0%} of comparisons; S {way} by {abs(finding.value):.3f}."
        )

    return words


def _separators(finding: Finding, numbers: Numbers) -> str:
    return (
        f"To the typical head of {layers_of(numbers.sums, 'final')} a sentence stop and a word are {finding.value:.2f} "
        "times as likely to be similar as two words at the same distance."
    )


def _reach(finding: Finding, numbers: Numbers) -> str:
    way = "farther apart" if finding.value >= 0 else "closer together"
    return (
        f"Within a sentence the typical head's similar words lie {way} in the final than in the middle layers, by "
        f"{abs(finding.value):.1%} of the mean distance of two words of a sentence."
    )


_MEASURED: dict[str, Callable[[Finding, Numbers], str]] = {
    "1a": _focus("sentence stops"),
    "1b": _focus("closing special tokens"),
    "2": _specialise,
    "3": _shorter,
    "4": _sentence,
    "5": _different,
    "6": _mask,
    "7a": _unlike,
    "7b": _told_apart("repetitions", "repeated"),
    "7c": _told_apart("pairs of one sentence", "sentence"),
    "8": _separators,
    "9": _reach,
}


def _beside(finding: Finding) -> list[str]:
    """The share of heads that do it, and of texts that show it by themselves, where there are such."""
    first, found = finding.statistics[0], []
    if not math.isnan(first.beyond):
        found.append(f"{first.beyond:.0%} of the heads lie beyond {first.bound:g}")
    if finding.texts is not None:
        found.append(f"{finding.texts:.0%} of the texts show it by themselves")
    return found


def _control_runs(finding: Finding) -> list[str]:
    """What control runs give, from the least to the most, by kind; a claim with two numbers has both."""
    found = []
    for kind, words in RUNS.items():
        ranges = []
        for statistic in finding.statistics:
            own = [run.value for run in finding.runs if run.kind == kind and run.statistic == statistic.label]
            known = [value for value in own if math.isfinite(value)]
            if known:
                least, most = (f"{each:z.{finding.digits}f}" for each in (min(known), max(known)))
                ranges.append(least if least == most else f"{least} to {most}")
        if ranges:
            found.append(f"{words} {' and '.join(ranges)}")
    return found


# ---------------------------------------------------------------------- what to make of it


def _judged(finding: Finding) -> str:
    bounds = _bounds(finding.statistics)
    if finding.verdict == "no verdict":
        return f"No verdict: {finding.reason}."
    if finding.verdict == "holds":
        beyond = f"The whole interval lies beyond {bounds}"
        if also := _rotated_too(finding):
            return f"{beyond}, and the controls that the method asks for pass: by that rule it holds. {also}"
        return f"{beyond}, and every control that the claim has passes: it holds."
    if finding.verdict == "qualified":
        said = f"Qualified: it lies beyond {bounds}, but it depends {_depends_on(finding)}."
        return f"{said} {_rotated_too(finding)}".strip()
    if finding.verdict == "does not hold":
        short = [each for each in finding.statistics if each.state == FAILS]
        cosine = [each for each in finding.controls if each.reading == "cosine" and not each.run]
        there = bool(cosine) and all(each.state == PASSES for each in cosine)
        found = ", ".join(each.interval(finding.digits) for each in cosine)
        also = f" By cosine, which leaves vector length out, the effect is there ({found})." if there else ""
        if not there and cosine and all(each.low > each.none for each in cosine) and finding.high < finding.none:
            also = f" By cosine it is on the other side of no effect ({found}), though short of that bound."
        which = "" if len(finding.statistics) == 1 else f" of {' and of '.join(each.label for each in short)}"
        return f"The whole interval{which} lies short of {_bounds(short)}: the claim does not hold.{also}"
    if all(each.state == PASSES for each in finding.statistics):
        return f"It lies beyond {bounds}, but controls leave it open: {finding.reason}."
    able = "" if finding.can_tell else " These texts would not show even an effect twice the smallest that matters."
    depends = _depends_on(finding)
    return f"Open: {finding.reason}.{able}" + (f" If it were there, it would depend {depends}." if depends else "")


def _middle(finding: Finding) -> str:
    """What a claim about the final layers does not ask."""
    if not finding.middle or finding.verdict not in ("holds", "qualified"):
        return ""
    return f"The middle layers do it more: {finding.middle}."


def _depends_on(finding: Finding) -> str:
    """What the controls that fail say of it, each once."""
    return "; and ".join(dict.fromkeys(each.without for each in finding.controls if each.state == FAILS))


def with_rotated_too(finding: Finding) -> list[RunNumber]:
    """Rotated runs that show the effect as well, of a claim that has no control against them."""
    if finding.verdict not in ("holds", "qualified") or any(each.run == ROTATED for each in finding.controls):
        return []
    own = finding.statistics[0]
    return [run for run in finding.runs if run.kind == ROTATED and run.statistic == own.label and run.low > own.bound]


def _rotated_too(finding: Finding) -> str:
    """What the claim's own controls do not ask, and a run beside them answers."""
    found = ", ".join(f"{run.value:z.{finding.digits}f}" for run in with_rotated_too(finding))
    if not found:
        return ""
    return (
        "None of its controls asks whether it is about sentences, and it is not: with rotated boundaries, which mean "
        f"nothing, the effect is there as well ({found})."
    )


def _nothing_learned(finding: Finding) -> str:
    """Networks that learned nothing and pass more easily: then the number by itself is no sign of learning."""
    own = finding.statistics[0]
    if finding.verdict not in ("holds", "qualified"):
        return ""
    runs = [run.value for run in finding.runs if run.kind in (PERMUTED, UNTRAINED) and run.statistic == own.label]
    known = [value for value in runs if math.isfinite(value)]
    if not known or min(known) < own.value:
        return ""
    return "Networks that learned nothing lie farther beyond that bound: the number by itself is no sign of learning."


def _pooled_apart(finding: Finding) -> str:
    """A typical pair on the other side of the bound than the typical head: a few heads have most of the pairs."""
    own = finding.statistics[0]
    if own.state not in (PASSES, FAILS) or math.isnan(own.pooled) or (own.pooled > own.bound) == (own.state == PASSES):
        return ""
    side = "beyond" if own.pooled > own.bound else "short of"
    return (
        f"Pooled over heads it is {own.pooled:z.{finding.digits}f}, {side} {own.bound:g}: some heads that "
        "count for more differ from the typical one."
    )


def _bounds(checks: Sequence[Check]) -> str:
    return " and ".join(f"{each.bound:.3g}" for each in checks)


def _both_sides(finding: Finding) -> str:
    """Layers that lie wholly on both sides of the bound: a third may hide them."""
    if not finding.layers_beyond or not finding.layers_short:
        return ""
    beyond, short = (numbered("layer", each) for each in (finding.layers_beyond, finding.layers_short))
    return f"Layers differ: {beyond} wholly beyond {finding.bound:g}, {short} wholly short of it."


def layers_of(sums: BlockSums, third: str) -> str:
    """A third by its layers, in words."""
    numbers = [sums.layers[place] for place in sums.third(third)]
    return f"the {third} layers ({listed(numbers)})" if len(numbers) > 1 else f"layer {numbers[0]}"
