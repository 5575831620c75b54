"""What the page asks of a result: the atlas of heads and the numbers of layers, in every way that S was read; findings;
curves and texts of one head.

All of it is worked out here; the page draws. A score is answered in milliseconds. Findings take longer, so they are
worked out beside, and whoever asks before they are done is told so.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from headscope.choices import READINGS
from headscope.errors import HeadscopeError, listed
from headscope.findings.claims import CLAIMS
from headscope.findings.controls import check_controls
from headscope.findings.estimates import quantity
from headscope.findings.finding import plain
from headscope.findings.numbers import Numbers, heads_of
from headscope.findings.resampling import Resampling
from headscope.findings.sensitivity import SWEPT
from headscope.findings.showing import KINDS, state_of
from headscope.measures.block_sums import BlockSums
from headscope.measures.columns import SCORES
from headscope.measures.quantities import named, shown_in
from headscope.measures.quantity import Quantity
from headscope.measures.view import View
from headscope.result.result import Result
from headscope.result.rows import examples_of_layer, row_paths
from headscope.view.later import Later
from headscope.view.looks import ATTENTION, TAU, control_drawn, ways_drawn
from headscope.view.marks import can_be_marked
from headscope.view.packing import pack
from headscope.view.purity import SORTED_BY_PURITY, of_run
from headscope.view.run_curves import STEPS, Curves
from headscope.windows.excerpts import excerpt
from headscope.windows.text import in_a_line, visible

EXAMPLES = 5  # texts to a head and score
TAUS_KEPT = 2  # thresholds whose draws are in memory: answers are small and are all kept, draws are not
FOCAL = ("focal_unique", "focal_null", "focal_mixed")  # drawn together
OF_LAYERS = ("value", "low", "high", "lower_quartile", "upper_quartile", "beyond", "pooled")
OF_HEADS = ("value", "low", "high")


@dataclass
class RunData:
    """A result behind the page, and control runs to compare it with. Every answer is kept: all are small."""

    result: Result
    controls: list[Result] = field(default_factory=list)

    def __post_init__(self) -> None:
        beside = check_controls(self.result, self.controls)
        self.beside = [(kind, each) for kind in ("permuted", "untrained", "rotated") for each in getattr(beside, kind)]
        self.sums: BlockSums = self.result.blocks
        self.resample = Resampling(self.sums.windows)
        self._scores: dict[tuple[str, str], bytes] = {}
        self._numbers: OrderedDict[float, Numbers] = OrderedDict()  # by τ
        self._heads: dict[tuple[int, int], bytes] = {}
        self._examples: dict[int, dict[tuple[int, str], pd.DataFrame]] = {}  # by layer
        # One thread at a time in each; what waits for one need not wait for the others.
        self._counting, self._drawing, self._reading = Lock(), Lock(), Lock()
        self._findings = Later(self._all_findings)
        self._sensitivity = Later(self._all_thresholds)
        self._others: dict[str, RunData] = {}  # by stack
        self._opening = Lock()

    def of_stack(self, name: str) -> RunData:
        """The same run seen through another attention stack of the model; each is opened once."""
        if name == self.result.name:
            return self
        with self._opening:
            if name not in self._others:
                self._others[name] = RunData(self.result.stack(name), self.controls)
            return self._others[name]

    # ------------------------------------------------------------------ what there is

    @cached_property
    def about(self) -> dict[str, Any]:
        """What there is to ask for; nothing that takes long."""
        result, sums = self.result, self.sums
        return {
            "model": in_a_line(str(result.model["name"])),
            "stack": result.name,
            "path": f"stacks/{result.name}/run",  # where all else of this stack is
            "stacks": list(result.stacks),
            "texts": in_a_line(str(result.texts["name"])),
            "windows": int(sums.texts.sum()),
            "blocks": sums.blocks,
            "groups": [in_a_line(group) for group in result.groups if group],
            "layers": list(sums.layers),
            "heads": sums.heads,
            "readings": [{"name": name, "meaning": READINGS[name]} for name in sums.readings],  # type: ignore[index]
            "maps": list(sums.maps),
            "ways": ways_drawn(),
            "tau": sums.tau,
            "theta": sums.theta,
            "scale": result.settings["scale"],
            "interval": self.resample.intervals,
            "thresholds": list(SWEPT),
            "claims": [_declared(claim) for claim in CLAIMS],
            "kinds": [{"name": kind.name, "heading": kind.heading, "meaning": kind.meaning} for kind in KINDS],
            "controls": [
                {"kind": kind, "name": in_a_line(str(each.model["name"]))} | control_drawn(kind)
                for kind, each in self.beside
            ],
            "quantities": [self._described(each) for each in self.quantities.values()],
            "bands": list(sums.bands),
            "base": self._curves.base,
            "rows": self.has_rows,
            "options": result.inspect_options,
        }

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """What is shown of heads or of layers, of what this result can give."""
        declared = [*shown_in("heads"), *shown_in("layers"), *(named(name) for name in FOCAL)]
        return {each.name: each for each in declared if self.ways(each)}

    def ways(self, which: Quantity) -> list[str]:
        """How a quantity can be read here: "tau" for the paper's way, readings, attention maps; or from attention."""
        alone = ATTENTION if which.read == "attention" else TAU
        ways = [way for way in which.ways(self.sums) if not which.lacking(View(self.sums, reading=way))]
        return [alone if way is None else way for way in ways]

    @property
    def has_rows(self) -> bool:
        """Whether the run kept what each head did with each text."""
        return row_paths(self.result) is not None

    def _described(self, which: Quantity) -> dict[str, Any]:
        return {
            "name": which.name,
            "label": which.label,
            "meaning": which.meaning,
            "base": plain(which.none),
            "bound": plain(which.bound),
            "logarithmic": which.logarithmic,
            "read": which.read,
            "matched": bool(which.matched),
            "of_layers": which.of_layers,
            "ways": self.ways(which),
            "heads": "heads" in which.shown,
            "layers": "layers" in which.shown,
            "examples": which.column if which.column in SCORES else None,
            "marked": can_be_marked(which.column),
        }

    # ------------------------------------------------------------------ scores of heads and layers

    def steps(self) -> list[int]:
        """The thresholds that the page's slider reaches, in twentieths."""
        return sorted({round(20 * each) for each in (*SWEPT, self.sums.tau)})

    def scores(self, name: str, way: str) -> bytes:
        """A quantity's numbers, read in one way: a reading, an attention map, "attention", or τ in twentieths.

        `heads`: (3, L, H), value, low, high; not of a quantity of layers. `layers`: (7, L), these three, the quartiles
        of the heads, the share of them beyond the bound, the number pooled over heads. `controls`: (runs, L), the
        values of control runs, where there are some; not at another τ than the run's. Where heads are sorted
        by how pure they are, `purity` and `repeated`: (L, H), see view/purity.py.
        """
        if (name, way) not in self._scores:
            which, tau, reading = self._way(name, way)
            with self._counting:
                self._scores[name, way] = pack(self._arrays(which, tau, reading))
        return self._scores[name, way]

    def _way(self, name: str, way: str) -> tuple[Quantity, float, str | None]:
        """A quantity, τ and reading, from how the page names them."""
        which = self.quantities.get(name)
        if which is None:
            raise HeadscopeError(f"there is no score {name!r}", f"use one of {', '.join(self.quantities)}")
        ways = self.ways(which)
        if way.isdecimal() and TAU in ways and 1 <= int(way) <= STEPS:
            return which, int(way) / 20, None
        if way not in ways or way == TAU:
            known = ", ".join("a number of twentieths from 1 to 19" if each == TAU else each for each in ways)
            raise HeadscopeError(f"{name} is not read by {way!r}", f"use one of {known}")
        return which, self.sums.tau, None if way == ATTENTION else way

    def _arrays(self, which: Quantity, tau: float, reading: str | None) -> dict[str, Any]:
        numbers = self._at(tau)
        by_layer = quantity(numbers, which.name, "layer", reading)
        arrays = {"layers": np.stack([by_layer[each].values for each in OF_LAYERS])}
        if not which.of_layers:
            by_head = quantity(numbers, which.name, "head", reading)
            arrays["heads"] = np.stack([by_head[each].values for each in OF_HEADS])
        if which.name == SORTED_BY_PURITY:
            arrays["purity"], arrays["repeated"] = of_run(View(self.sums, tau, reading=reading))
        if self.beside and tau == self.sums.tau:
            views = [View(each.blocks, tau, reading=reading) for _, each in self.beside]
            arrays["controls"] = np.stack([which.value(view, "layer") for view in views])
        return arrays

    def _at(self, tau: float) -> Numbers:
        """The numbers at a τ; those of the last few are kept."""
        if tau not in self._numbers:
            numbers = Numbers(self.sums, self.resample, tau)
            if numbers.view().over_windows:
                self._match(numbers)
            self._numbers[tau] = numbers
            others = [each for each in self._numbers if each not in (tau, self.sums.tau)]
            for each in others[: max(0, len(others) - TAUS_KEPT + 1)]:
                del self._numbers[each]
        return self._numbers[tau]

    def _match(self, numbers: Numbers) -> None:
        """Matched ratios at another τ come from the pairs of all levels, which are large: each layer is read once."""
        matched = [each for each in self.quantities.values() if each.matched]
        parts: dict[str, list[Any]] = {each.name: [] for each in matched}
        for k in range(len(self.sums.layers)):
            view = View(self.sums.layer(k), numbers.tau)
            for each in matched:
                parts[each.name].append(heads_of(each, view, self.resample))
        for each in matched:
            numbers.keep(each, parts[each.name])

    # ------------------------------------------------------------------ findings

    def findings(self) -> dict[str, Any]:
        """The findings at the run's own thresholds, or that they are not ready."""
        return _answer(self._findings)

    def sensitivity(self) -> dict[str, Any]:
        """Every statistic over the threshold it depends on, or that this is not ready."""
        return _answer(self._sensitivity)

    def finish(self) -> None:
        """Wait for both."""
        self._sensitivity.value()

    def prepare(self) -> None:
        """Work out what the page begins with, then begin on the findings."""
        for each in self.quantities.values():
            self.scores(each.name, self._first_way(each))
        self._sensitivity.start()

    def _first_way(self, which: Quantity) -> str:
        way = self.ways(which)[0]
        return str(round(20 * self.sums.tau)) if way == TAU else way

    def _all_findings(self) -> dict[str, Any]:
        found = self.result.findings(controls=self.controls)
        claims = {}
        for finding in found:
            claims[finding.key] = finding.as_dict() | {"marks": {kind.name: state_of(finding, kind) for kind in KINDS}}
        told = {"claims": claims, "warnings": list(found.warnings), "unread": found.unread}
        lines: dict[str, Any] = _in_lines(told)
        return lines

    def _all_thresholds(self) -> dict[str, Any]:
        self._findings.value()  # first, for they are what is looked at first
        swept = self.result.sensitivity()
        claims: dict[str, list[dict[str, Any]]] = {}
        for row, key in enumerate(swept["claim"].values):
            columns = {name: swept[name].values[row].tolist() for name in ("value", "low", "high", "state", "reason")}
            fixed = {name: swept[name].values[row].item() for name in ("bound", "none")}
            told = {"statistic": str(swept["statistic"].values[row])} | fixed | columns
            claims.setdefault(str(key).split()[0], []).append(plain(told))
        return {"claims": claims}

    # ------------------------------------------------------------------ one head

    @cached_property
    def _curves(self) -> Curves:
        return Curves(self.sums, self.resample)

    def curves(self, layer: int, head: int) -> bytes:
        """One head over distance, at every τ and in each reading: see `Curves.of_head`."""
        k = self._place(layer, head)
        if (k, head) not in self._heads:
            with self._drawing:
                self._heads[k, head] = pack(dict(self._curves.of_head(k, head)))
        return self._heads[k, head]

    def examples(self, layer: int, head: int, score: str) -> list[dict[str, Any]]:
        """The texts in which a head shows a score most."""
        self._place(layer, head)
        if score not in SCORES:
            raise HeadscopeError(f"there is no score {score!r}", f"use one of {', '.join(SCORES)}")
        with self._reading:
            if layer not in self._examples:  # a layer at a time: the tables are large, the answers small
                every = range(self.sums.heads)
                self._examples[layer] = examples_of_layer(self.result, layer, every, SCORES, EXAMPLES)
            rows = self._examples[layer][head, score]
        texts = []
        for _, row in rows.iterrows():
            text, focal = str(row["text"]), row["focal_token"]
            begins, ends = (_unless_not(row[name]) for name in ("starts_text", "ends_text"))
            texts.append(
                {
                    "id": in_a_line(str(row["id"])),
                    "text": text,
                    "short": str(excerpt(text, (), begins=begins, ends=ends)),
                    "score": plain(float(row[score])),
                    "begins": begins,
                    "ends": ends,
                    "high_pairs": int(row["high_pairs"]),
                    "focal_token": visible(str(focal)) if isinstance(focal, str) else None,
                }
            )
        return texts

    def _place(self, layer: int, head: int) -> int:
        sums = self.sums
        if layer not in sums.layers or not 0 <= head < sums.heads:
            raise HeadscopeError(
                f"there is no head {head} in layer {layer}",
                f"layers are {listed(sums.layers)}, heads 0 to {sums.heads - 1}",
            )
        return sums.layers.index(layer)


def _unless_not(value: object) -> bool:
    """Whether it is so, or, in the rows of an earlier version, not known."""
    return value is None or bool(value)


def _declared(claim: Any) -> dict[str, Any]:
    first = claim.statistics[0]
    return {
        "key": claim.key, "claim": claim.paper, "says": claim.says, "statistic": claim.statistic,
        "over": claim.thresholds, "digits": claim.digits, "none": first.none, "bound": first.bound,
    }  # fmt: skip


def _answer(later: Later[dict[str, Any]]) -> dict[str, Any]:
    """What was worked out; where it is not yet, it begins."""
    later.start()
    return {"ready": True} | later.value() if later.is_ready else {"ready": False}


def _in_lines(value: Any) -> Any:
    """Every string in one line that turns nothing round: names of models and texts are among them."""
    if isinstance(value, dict):
        return {key: _in_lines(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_lines(each) for each in value]
    return in_a_line(value) if isinstance(value, str) else value
