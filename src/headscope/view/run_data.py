"""What the page asks of a result: findings at every threshold, the atlas of heads, curves and texts of one head.

All of it is worked out here; the page draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.findings import Findings
from headscope.findings.claims import CLAIMS
from headscope.findings.resampling import Resampling
from headscope.findings.sensitivity import SWEPT
from headscope.findings.stability import head_sums
from headscope.findings.verdicts import plain
from headscope.measures import derived
from headscope.measures.columns import SCORES
from headscope.measures.derived import Array, ratio
from headscope.measures.quantities import Quantity, shown_in
from headscope.report.examples import LONGEST
from headscope.result.result import Result
from headscope.result.rows import examples_of_layer, row_paths
from headscope.view.arrays import pack
from headscope.windows.text import in_a_line, visible

CURVE = 24  # points of a curve over distance, at most
EXAMPLES = 5  # texts to a head and score


@dataclass
class RunData:
    """A result behind the page. Every answer is kept, for there are few of them and all are small."""

    result: Result
    controls: list[Result] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._swept: dict[int, tuple[bytes, NDArray[np.int64]]] = {}  # by τ: the atlas, and pairs by distance
        self._examples: dict[int, dict[tuple[int, str], pd.DataFrame]] = {}  # by layer
        self._lock = Lock()  # netCDF and the caches of a result are not made for two threads

    @cached_property
    def resample(self) -> Resampling:
        """For the intervals of heads."""
        return Resampling(self.result.blocks.windows)

    @cached_property
    def findings(self) -> Findings:
        """The findings at the run's own thresholds."""
        return self.result.findings(controls=self.controls)

    @cached_property
    def about(self) -> dict[str, Any]:
        """Findings at every threshold, and what there is to ask for."""
        with self._lock:
            return self._about()

    def _about(self) -> dict[str, Any]:
        result, findings = self.result, self.findings
        sums, swept = result.blocks, result.sensitivity()
        claims = []
        for row, (claim, finding) in enumerate(zip(CLAIMS, findings, strict=True)):
            claims.append(
                {
                    "key": claim.key,
                    "claim": claim.paper,
                    "says": claim.says,
                    "statistic": claim.statistic,
                    "over": claim.thresholds,
                    "none": claim.none,
                    "bound": claim.bound,
                    "digits": claim.digits,
                    "own": _finding(finding) | {"sentence": in_a_line(finding.sentence), "texts": finding.texts},
                    "swept": {
                        name: plain(swept[name].values[row].tolist())
                        for name in ("value", "low", "high", "verdict", "reason")
                    },
                }
            )
        return {
            "model": in_a_line(str(result.model["name"])),
            "stack": result.name,
            "texts": in_a_line(str(result.texts["name"])),
            "windows": int(result.dataset["texts"]),
            "blocks": sums.blocks,
            "groups": [in_a_line(group) for group in result.groups if group],
            "layers": list(sums.layers),
            "heads": sums.heads,
            "tau": findings.tau,
            "theta": findings.theta,
            "interval": findings.interval,
            "head_interval": f"95 %, jackknife over {sums.blocks} blocks",
            "warnings": [in_a_line(warning) for warning in findings.warnings],
            "thresholds": list(SWEPT),
            "claims": claims,
            "scores": [_described(quantity) for quantity in shown_in("heads", sums.stored)],
            "rows": self.has_rows,
            "options": result.inspect_options,
        }

    @property
    def has_rows(self) -> bool:
        """Whether the run kept what each head did with each text."""
        return row_paths(self.result) is not None

    def atlas(self, step: int) -> bytes:
        """Every score of every head at τ = step/20 with its interval: value, low, high, (scores, L, H) each."""
        return self._at(step)[0]

    def _at(self, step: int) -> tuple[bytes, NDArray[np.int64]]:
        """A threshold's tables, from one reading of the pairs of all heads."""
        if not 1 <= step <= 19:
            raise HeadscopeError(f"τ = {step}/20", "ask for a whole number of twentieths from 1 to 19")
        with self._lock:
            if step not in self._swept:
                atlas = self._atlas(step / 20)
                high = self.result.blocks.heads_at(step / 20)  # (S, L, H, distance, relation)
                self._swept[step] = atlas, _grouped(high, self._width, self._longest)
            return self._swept[step]

    def prepare(self, tell: Callable[[str], None] | None = None) -> None:
        """Work out everything there is to ask, so that sliders need not wait."""
        for threshold in self.about["thresholds"]:
            if tell:
                tell(f"the heads at τ = {threshold:.2f}")
            self._at(round(threshold * 20))

    @cached_property
    def _longest(self) -> int:
        return int(np.flatnonzero(self.result.blocks.base.sum((0, 2))).max(initial=0)) + 1

    @property
    def _width(self) -> int:
        return max(1, -(-self._longest // CURVE))

    def _atlas(self, tau: float) -> bytes:
        sums = self.result.blocks
        arrays: dict[str, list[Array]] = {"value": [], "low": [], "high": []}
        for quantity in shown_in("heads", sums.stored):
            estimate = self.resample.jackknife(quantity.formula, *head_sums(sums, quantity.name, tau))
            ratios = quantity.is_ratio  # cannot be below nothing
            for key, values in arrays.items():
                each = getattr(estimate, key)
                values.append(np.maximum(each, 0) if ratios and key == "low" else each)
        return pack({key: np.stack(values) for key, values in arrays.items()})

    def curves(self, layer: int, head: int, step: int) -> dict[str, Any]:
        """One head over distance: where its similar pairs lie, and how likely pairs within and across sentences are."""
        k = self._place(layer, head)
        high = self._at(step)[1][:, k, head].astype(np.float64)  # (S, groups of distances, relation)
        every = _grouped(self.result.blocks.base, self._width, self._longest).astype(np.float64)

        def shares(counted: Array) -> Array:
            return ratio(counted, counted.sum(-1, keepdims=True))

        curves: dict[str, Any] = {"edges": list(range(1, self._longest + self._width + 1, self._width))}
        curves["distance"] = self._estimate(shares, high.sum(-1))
        curves["base"] = plain(shares(every.sum((0, 2))).tolist())
        for name, kinds in (("within", derived.WITHIN), ("across", derived.ACROSS)):
            curves[name] = self._estimate(ratio, *(each[..., list(kinds)].sum(-1) for each in (high, every)))
            curves[f"{name}_pairs"] = every[..., list(kinds)].sum((0, -1)).tolist()
        return curves

    def _estimate(self, function: Any, *sums: Array) -> dict[str, Any]:
        estimate = self.resample.jackknife(function, *sums)
        limits = {"value": estimate.value, "low": np.maximum(estimate.low, 0), "high": estimate.high}
        return {name: plain(values.tolist()) for name, values in limits.items()}

    def examples(self, layer: int, head: int, score: str) -> list[dict[str, Any]]:
        """The texts in which a head shows a score most."""
        self._place(layer, head)
        if score not in SCORES:
            raise HeadscopeError(f"there is no score {score!r}", f"use one of {', '.join(SCORES)}")
        with self._lock:
            if layer not in self._examples:  # a layer at a time: the tables are large, the answers small
                every = range(self.result.blocks.heads)
                self._examples[layer] = examples_of_layer(self.result, layer, every, SCORES, EXAMPLES)
            rows = self._examples[layer][head, score]
        texts = []
        for _, row in rows.iterrows():
            text, focal = str(row["text"]), row["focal_token"]
            texts.append(
                {
                    "id": in_a_line(str(row["id"])),
                    "text": text,
                    "short": in_a_line(" ".join(text[:LONGEST].split())) + (" …" if len(text) > LONGEST else ""),
                    "score": plain(float(row[score])),
                    "high_pairs": int(row["high_pairs"]),
                    "focal_token": visible(str(focal)) if isinstance(focal, str) else None,
                }
            )
        return texts

    def _place(self, layer: int, head: int) -> int:
        sums = self.result.blocks
        if layer not in sums.layers or not 0 <= head < sums.heads:
            raise HeadscopeError(
                f"there is no head {head} in layer {layer}",
                f"layers are {sums.layers[0]} to {sums.layers[-1]}, heads 0 to {sums.heads - 1}",
            )
        return sums.layers.index(layer)


def _described(quantity: Quantity) -> dict[str, Any]:
    return {
        "name": quantity.name,
        "label": quantity.short_label,
        "base": None if math.isnan(quantity.none) else quantity.none,
        "examples": quantity.column or None,
    }


def _finding(finding: Any) -> dict[str, Any]:
    return {name: plain(getattr(finding, name)) for name in ("value", "low", "high", "verdict", "reason")}


def _grouped(counts: NDArray[Any], width: int, longest: int) -> NDArray[np.int64]:
    """Distances in groups of so many: (…, distance, relation) to (…, groups, relation)."""
    return np.add.reduceat(counts[..., :longest, :], np.arange(0, longest, width), axis=-2).astype(np.int64)
