"""Every derived number, interval, control and verdict against the naive version, on sums made up for it."""

from __future__ import annotations

import math

import numpy as np
import pytest

import naive_findings as naive
import synthetic
from headscope.findings import CLAIMS, QUANTITIES
from headscope.findings.checks import ControlRun, less
from headscope.findings.numbers import Measured, Number, Numbers
from headscope.findings.resampling import Resampling
from headscope.findings.verdicts import judge
from headscope.measures.block_sums import BlockSums
from headscope.measures.relations import RELATIONS

DRAWS = 25
STOP = RELATIONS.index("stop")
PLAIN = synthetic.block_sums(blocks=9)
SPARSE = synthetic.block_sums(blocks=9, heads=3, layers=4, scale=0.6, rate=0.004, seed=5)  # heads without a number


def numbers_of(sums: BlockSums, draws: int = DRAWS, **how: float) -> Numbers:
    return Numbers(sums, Resampling(sums.windows, draws=draws), **how)


def same(mine: object, theirs: float) -> None:
    np.testing.assert_allclose(float(mine), theirs, rtol=1e-9, atol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("sums", [PLAIN, SPARSE], ids=["plain", "sparse"])
@pytest.mark.parametrize("name", QUANTITIES)
def test_quantities(name: str, sums: BlockSums) -> None:
    quantity, numbers = QUANTITIES[name], numbers_of(sums, draws=0)
    for reading in quantity.ways(sums):
        corpus = naive.Corpus(sums, [1] * sums.blocks, reading=reading)
        for by in ("layer", "third", "model"):
            found = np.atleast_1d(numbers.by(quantity, by, reading).value)
            assert len(found) == len(corpus.by(name, by))
            for mine, theirs in zip(found, corpus.by(name, by), strict=True):
                same(mine, theirs)
        if not quantity.of_layers:
            heads = numbers.by(quantity, "head", reading).value
            same(heads[1, 2], corpus.number(name, 1, 2))


@pytest.mark.parametrize("name", [name for name, each in QUANTITIES.items() if each.read == "pairs"])
def test_quantities_at_another_tau(name: str) -> None:
    found = numbers_of(PLAIN, draws=0, tau=0.7).by(QUANTITIES[name], "third").value
    corpus = naive.Corpus(PLAIN, [1] * PLAIN.blocks, tau=0.7)
    for mine, theirs in zip(found, corpus.by(name, "third"), strict=True):
        same(mine, theirs)
    assert numbers_of(PLAIN, tau=0.7).view().over_windows
    assert not numbers_of(PLAIN).view().over_windows


def test_quantities_of_attention_at_another_theta() -> None:
    for name in ("stop_among_attended", "mask_contrast"):
        found = numbers_of(PLAIN, draws=0, theta=0.6).by(QUANTITIES[name], "layer").value
        for mine, theirs in zip(found, naive.Corpus(PLAIN, [1] * 9, theta=0.6).by(name, "layer"), strict=True):
            same(mine, theirs)


def test_a_head_with_few_pairs_has_no_number_and_is_left_out() -> None:
    heads = numbers_of(SPARSE, draws=0).by(QUANTITIES["repetition_preference"], "head").value
    assert 0 < np.isnan(heads).sum() < heads.size
    a, b = SPARSE.stored["matched"].sum(0)[:, :, 1].transpose(2, 0, 1)
    assert (np.isnan(heads) == (a + b < 5)).all()


def test_pooled_numbers_add_up_heads_first() -> None:
    numbers = numbers_of(PLAIN, draws=0)
    a, b = PLAIN.stored["matched"].sum(0)[2, :, 0].sum(0)
    same(numbers.pooled(QUANTITIES["sentence_preference"], "third")[2], (a + 0.5) / (b + 0.5))
    wins, weight = (PLAIN.stored[name].sum(0) for name in ("wins", "contrast_weight"))
    same(numbers.pooled(QUANTITIES["mask_auc"], "model", "cosine"), wins[1, ..., 3].sum() / weight[..., 3].sum())
    high, every = PLAIN.high(0.5).sum((0, 1, 2, 3)), PLAIN.stored["base_pairs"].sum((0, 1))
    far = PLAIN.stored["distance_sum"].sum((0, 1, 2))[11:].sum()
    base = (PLAIN.stored["base_pairs"].sum((0, 2)) * np.arange(1, 20)).sum() / every.sum()
    same(numbers.pooled(QUANTITIES["reach"], "model"), far / high.sum() / base)


# ---------------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("name", "by", "reading"),
    [
        ("sentence_preference", "third", None),
        ("repetition_preference", "layer", "cosine"),
        ("reach", "third", "cosine"),
        ("reach_within", "model", None),
        ("focal_excess", "model", "dot"),
        ("likeness", "layer", "cosine"),
        ("repeated_beyond_maps", "third", "dot"),
        ("separation_sentence", "third", "rows"),
    ],
)
def test_intervals(name: str, by: str, reading: str | None) -> None:
    found = numbers_of(PLAIN).by(QUANTITIES[name], by, reading)
    for place, value in enumerate(np.atleast_1d(found.value)):
        expected = naive.interval(
            lambda corpus, k=place: corpus.by(name, by)[k], PLAIN, DRAWS, name in naive.RATIOS, reading=reading
        )  # fmt: skip
        ends = np.atleast_1d(found.low)[place], np.atleast_1d(found.high)[place]
        np.testing.assert_allclose([value, *ends], expected, rtol=1e-8)


@pytest.mark.parametrize(("name", "reading"), [("repetition_preference", None), ("reach", None), ("reach", "cosine")])
def test_specialisation(name: str, reading: str | None) -> None:
    sums = synthetic.block_sums(blocks=8, layers=2, heads=3, length=9, seed=2)
    found = numbers_of(sums, draws=4).measure(Number(name, "spread of heads", reading))
    expected = naive.measured(sums, name, "spread", 4, reading=reading)
    np.testing.assert_allclose([found.value, found.low, found.high], expected, rtol=1e-7, atol=1e-9)


def test_specialisation_of_heads_without_a_number() -> None:
    found = numbers_of(SPARSE, draws=3).measure(Number("repetition_preference", "spread of heads", "cosine"))
    expected = naive.measured(SPARSE, "repetition_preference", "spread", 3, reading="cosine")
    np.testing.assert_allclose([found.value, found.low, found.high], expected, rtol=1e-7, atol=1e-9)


def test_the_spread_of_equal_heads_is_nothing_on_average() -> None:
    """However few texts there are: the noise is taken out."""
    rng = np.random.default_rng(0)
    from headscope.findings.specialisation import numbers_of as formulas
    from headscope.findings.specialisation import variances

    number, left_out = formulas(QUANTITIES["repetition_preference"])
    found = []
    for _ in range(150):
        a, b = rng.poisson(6.0, size=(2, 12, 1, 8)).astype(float)
        found.append(float(variances(number, left_out, [a, b], np.ones((1, 12)))[0, 0]))
    noise = float(np.std(found)) / math.sqrt(len(found))
    assert abs(np.mean(found)) < 3 * noise
    assert noise < 0.002


def test_the_bootstrap_of_a_mean_has_its_standard_error() -> None:
    x = np.random.default_rng(0).normal(size=64)
    found = Resampling(np.ones(64), draws=20_000)(lambda total, number: total / number, x, np.ones(64))
    wide = 1.998 * np.sqrt(64 / 63) * x.std() / 8  # Student's t with 63 degrees of freedom
    assert float(found.high - found.low) == pytest.approx(2 * wide, rel=0.03)


def test_few_and_unequal_blocks_keep_their_coverage() -> None:
    rng, covered, number = np.random.default_rng(1), 0, 300
    for _ in range(number):
        sizes = rng.integers(1, 12, size=12).astype(float)
        totals = np.array([rng.gamma(2.0, size=int(n)).sum() for n in sizes])
        found = Resampling(sizes, draws=300)(lambda total, n: total / n, totals, sizes, logarithmic=True)
        covered += bool(found.low <= 2.0 <= found.high)
    assert 0.9 <= covered / number <= 0.98  # skewed, and blocks that differ tenfold


def test_no_interval_under_eight_blocks() -> None:
    sums = synthetic.block_sums(blocks=7)
    found = numbers_of(sums).by(QUANTITIES["reach"], "third")
    assert np.isfinite(found.value).all()
    assert np.isnan(found.low).all()


def test_a_difference_of_two_runs_has_an_interval_of_both() -> None:
    found = less(Measured(5.0, 4.0, 6.0, 0.5), Measured(2.0, 1.25, 3.0, 0.4))
    assert found.value == 3
    assert found.low == pytest.approx(3 - math.hypot(1, 1))
    assert found.high == pytest.approx(3 + math.hypot(1, 0.75))


# ---------------------------------------------------------------------- claims


@pytest.mark.parametrize("key", [claim.key for claim in CLAIMS])
def test_claims(key: str) -> None:
    """Statistic, controls and verdict of every claim."""
    draws = 3 if key == "2" else 12
    sums = synthetic.block_sums(blocks=8, layers=3, heads=3, length=9, seed=7)
    claim = next(each for each in CLAIMS if each.key == key)
    found = judge(claim, numbers_of(sums, draws=draws))
    statistics, controls = naive.CLAIMS[key]
    states: list[list[str]] = [[], []]
    for mine, (name, where, bound) in zip(found.statistics, statistics, strict=True):
        states[0].append(_compare(mine, naive.measured(sums, name, where, draws), bound))
    own = [each for each in found.controls if not each.run]
    for mine, (name, where, bound, reading) in zip(own, controls, strict=True):
        states[1].append(_compare(mine, naive.measured(sums, name, where, draws, reading=reading), bound))
    not_run = [each.state for each in found.controls if each.run]
    assert set(not_run) <= {"not run"}
    assert found.verdict == naive.verdict(states[0], states[1] + not_run)


def _compare(mine: object, theirs: tuple[float, float, float], bound: float) -> str:
    found = [getattr(mine, name) for name in ("value", "low", "high", "bound")]
    np.testing.assert_allclose(found, [*theirs, bound], rtol=1e-7, atol=1e-9)
    expected = naive.state(theirs[1], theirs[2], bound)
    assert getattr(mine, "state") == expected  # noqa: B009
    return expected


def test_controls_by_runs() -> None:
    """The same number in permuted runs, and with rotated labels."""
    sums, other, third = (synthetic.block_sums(blocks=9, seed=seed) for seed in (0, 3, 4))
    numbers = numbers_of(sums)

    def run(kind: str, own: BlockSums) -> ControlRun:
        return ControlRun.of(kind, f"{kind} run", own, 0.5, DRAWS, 0)

    claim = next(each for each in CLAIMS if each.key == "7c")
    found = judge(claim, numbers, [run("permuted", other), run("permuted", third)])
    check = found.controls[-1]
    each = []
    for control in (other, third):
        mine = naive.measured(sums, "sentence_beyond_maps", "layers", DRAWS)
        theirs = naive.measured(control, "sentence_beyond_maps", "layers", DRAWS)
        low = mine[0] - theirs[0] - math.hypot(mine[0] - mine[1], theirs[2] - theirs[0])
        high = mine[0] - theirs[0] + math.hypot(mine[2] - mine[0], theirs[0] - theirs[1])
        each.append((mine[0] - theirs[0], low, high))
    np.testing.assert_allclose([check.value, check.low, check.high], min(each), rtol=1e-7)
    claim = next(each for each in CLAIMS if each.key == "4")
    found = judge(claim, numbers, [run("rotated", other)])
    theirs = naive.measured(other, "sentence_preference", 2, DRAWS)
    np.testing.assert_allclose([found.controls[-1].value, found.controls[-1].high], [theirs[0], theirs[2]], rtol=1e-7)
    assert found.controls[-1].state == naive.state(theirs[1], theirs[2], 1.05, above=False)


def test_one_block_that_supplies_most_is_noticed() -> None:
    from headscope.findings.numbers import concentration

    sums = synthetic.block_sums(blocks=20, seed=8)
    places = sums.third("final")
    for times in (1, 3, 60):
        stored = {name: values.copy() for name, values in sums.stored.items()}
        stored["matched"][4] *= times
        stored["texts"][4] = 2
        changed = BlockSums(**{name: getattr(sums, name) for name in FIELDS} | {"stored": stored})
        counts = [stored["matched"][:, places][..., 0, side] for side in (0, 1)]
        expected = naive.supplied_by_one_block(changed, "sentence", places)
        assert (concentration(counts, stored["texts"])[0] > 0) == expected
        claim = next(each for each in CLAIMS if each.key == "4")
        found = judge(claim, numbers_of(changed))
        assert ("one block of texts supplies" in found.statistics[0].why) == expected
        if expected:
            assert found.verdict == "open"
    assert expected


FIELDS = ("layers", "depth", "heads", "readings", "tau", "theta", "groups", "stored", "layer_pairs")
