"""Findings: every claim of the paper compared with a result, with an interval and an honest verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headscope.findings.claims import CLAIMS, CannotTell, Claim
from headscope.findings.controls import check_controls
from headscope.findings.floor import Untrained, floor_of
from headscope.findings.resampling import DRAWS, VERDICT_FROM, Resampling
from headscope.findings.sentences import in_words
from headscope.findings.trouble import signs_of_trouble
from headscope.measures.block_sums import BlockSums

if TYPE_CHECKING:
    import pandas as pd

    from headscope.result.result import Result

HOLDS, FAILS, OPEN, NONE = "holds", "does not hold", "open", "no verdict"


@dataclass(frozen=True)
class Finding:
    """What was found about one claim."""

    key: str
    claim: str
    says: str  # the paper
    statistic: str
    verdict: str
    value: float  # NaN where `reason` says why there is none
    low: float
    high: float
    none: float  # the statistic where there is no effect
    bound: float  # the smallest effect that matters
    detectable: float  # an effect of this size would be found in 80 % of such corpora
    can_tell: bool  # whether that is at most twice the smallest effect that matters
    digits: int
    reason: str = ""  # why there is no verdict
    sentence: str = ""
    texts: float | None = None  # share of texts that show the effect on their own, where rows per text were kept
    untrained: Untrained | None = None  # the same of untrained models, where there are runs of some

    def interval(self) -> str:
        """The number with its interval, as one string."""
        if math.isnan(self.value):
            return "–"
        shown = f"{self.value:.{self.digits}f}"
        return shown if math.isnan(self.low) else f"{shown} [{self.low:.{self.digits}f}, {self.high:.{self.digits}f}]"


@dataclass(frozen=True)
class Findings(Sequence[Finding]):
    """All findings of one result, in the order of the claims, with warnings about signs of trouble.

    >>> import headscope
    >>> texts = [p["text"] for p in headscope.passages()[:8]]
    >>> findings = headscope.analyze(None, texts, progress=False).findings()
    >>> findings["1b"].verdict
    'holds'
    """

    model: str
    stack: str
    windows: int
    blocks: int
    interval: str
    tau: float
    theta: float
    items: tuple[Finding, ...] = field(repr=False)
    warnings: tuple[str, ...] = ()
    about: dict[str, Any] = field(default_factory=dict, repr=False)  # settings, model and texts of the run

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for finding in self.items:
                if finding.key == key:
                    return finding
            raise KeyError(key)
        return self.items[key]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.items)

    def __repr__(self) -> str:
        head = f"{self.model}, {self.stack}, {self.windows:,} windows, τ = {self.tau:g}"
        rows = [f"{f.key:<3}{f.claim:<46}{f.interval():<24}{f.verdict}" for f in self.items]
        return "\n".join([head, *rows])

    def table(self) -> pd.DataFrame:
        """A row per claim."""
        import pandas as pd

        columns = "key claim says statistic value low high none bound verdict texts sentence".split()
        frame = pd.DataFrame([{name: getattr(f, name) for name in columns} for f in self.items])
        if any(f.untrained for f in self.items):
            frame["untrained"] = [f.untrained.mean if f.untrained else math.nan for f in self.items]
            frame["learned"] = [f.untrained.learned if f.untrained else None for f in self.items]
        return frame

    def as_dict(self) -> dict[str, Any]:
        """For JSON: numbers that are not there become None."""
        fields = asdict(self)
        fields["findings"] = fields.pop("items")
        without_nan: dict[str, Any] = plain(fields)
        return without_nan


def findings(
    result: Result, *, tau: float | None = None, controls: Sequence[Result] = (), draws: int = DRAWS, seed: int = 0
) -> Findings:
    """Compare every claim with a result."""
    from headscope.findings.single_texts import shares_of_texts

    beside = check_controls(result, controls)
    blank = [each.blocks for each in beside.untrained]
    sums, at = result.blocks, result.tau(tau)
    resample = Resampling(sums.windows, draws=draws, seed=seed)
    shares = shares_of_texts(result, at)
    items = []
    for claim in CLAIMS:
        finding = judge(claim, sums, resample, at)
        untrained = floor_of(claim, sums, finding.low, finding.high, blank, at) if blank else None
        share = shares.get(claim.key)
        sentence = in_words(claim, finding, sums, at, share, untrained)
        items.append(replace(finding, sentence=sentence, texts=share, untrained=untrained))
    return Findings(
        model=result.model["name"],
        stack=result.name,
        windows=int(result.dataset["texts"]),
        blocks=sums.blocks,
        interval=f"95 %, {resample.how}",
        tau=at,
        theta=float(result.settings["theta"]),
        items=tuple(items),
        warnings=tuple(signs_of_trouble(sums, at)),
        about={
            "headscope": result.attrs.get("headscope"),
            "settings": result.settings,
            "model": result.model,
            "texts": result.texts,
            "controls": beside.names,
        },
    )


def judge(claim: Claim, sums: BlockSums, resample: Resampling, tau: float, theta: float | None = None) -> Finding:
    """Measure one claim and say whether it holds."""
    nan, reason = math.nan, ""
    value = low = high = error = nan
    try:
        if claim.of_pairs and not sums.windows.sum():
            raise CannotTell("no window has two tokens to compare")
        estimate = claim.measure(sums, resample, tau, theta)
        value, low, high, error = (
            float(each) for each in (estimate.value, estimate.low, estimate.high, estimate.error)
        )
    except CannotTell as why:
        reason = str(why)
    if not reason and not resample.enough_blocks:
        number = "one block" if sums.blocks == 1 else f"{sums.blocks} blocks"
        reason = f"{number} of texts; a verdict takes {VERDICT_FROM}"
    elif not reason and math.isnan(low):
        resampled = len(resample.weights) > 0
        reason = "too many resamples of the texts have nothing to compare" if resampled else "no interval was asked for"
    # Ratios vary in proportion to their size, and the effect in question may be far smaller than the one at hand.
    proportional = claim.none == 1.0 and value > 0
    reach = resample.errors_to_detect * error
    detectable = claim.bound * math.exp(min(reach / value, 50)) if proportional else claim.bound + reach
    return Finding(
        key=claim.key,
        claim=claim.paper,
        says=claim.says,
        statistic=claim.statistic,
        verdict=NONE if reason else verdict(low, high, claim.bound),
        value=value,
        low=low,
        high=high,
        none=claim.none,
        bound=claim.bound,
        detectable=detectable,
        can_tell=not reason and detectable <= claim.twice,
        digits=claim.digits,
        reason=reason,
    )


def verdict(low: float, high: float, bound: float) -> str:
    """Whether a whole interval lies beyond the smallest effect that matters, short of it, or neither.

    >>> verdict(1.2, 1.4, 1.1), verdict(0.9, 1.05, 1.1), verdict(1.0, 1.2, 1.1)
    ('holds', 'does not hold', 'open')
    """
    return HOLDS if low > bound else FAILS if high < bound else OPEN


def plain(value: Any) -> Any:
    """For JSON, which has no NaN: numbers that are not there become None, however deep they stand.

    >>> plain({"a": [1.0, math.nan]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
