"""The tables of a results page, in Markdown, from the folder that `headscope reproduce` wrote.

python docs/results/tables.py DIR
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import headscope
from headscope.findings.finding import MARKS
from headscope.findings.showing import KINDS, mark_of
from headscope.measures.quantities import named

ROWS = (  # quantities by layer, and how each is read ("": as the paper reads S)
    ("separator_focus_stop", ""), ("separator_focus_stop_weighted", ""), ("separator_focus_end", ""),
    ("attention_spread", ""), ("reach", ""), ("reach", "cosine"),
    ("sentence_preference", ""), ("sentence_preference", "cosine"),
    ("repetition_preference", ""), ("repetition_preference", "cosine"), ("separator_similarity", ""),
    ("separator_similarity", "cosine"), ("reach_within", ""), ("focal_unique", ""), ("focal_null", ""),
    ("focal_excess", "cosine"), ("mask_auc", ""), ("mask_auc", "cosine"), ("likeness", ""), ("norm_correlation", ""),
)  # fmt: skip


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join([f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *(f"| {' | '.join(r)} |" for r in rows)])


def number(value: float, digits: int = 2) -> str:
    return "–" if math.isnan(value) else f"{value:z.{digits}f}"


def findings(found: Any) -> str:
    rows = [
        [f"{each.key} {each.claim}", each.interval(), "; ".join(f"{s.bound:.3g}" for s in each.statistics),
         *(mark_of(each, kind) for kind in KINDS), f"**{each.verdict}**"]
        for each in found
    ]  # fmt: skip
    said = "\n".join(f"- {each.key}: {each.sentence}" for each in found)
    warned = "\n".join(f"- {each}" for each in found.warnings)
    return "\n\n".join(
        [table(["claim", "measured", "bound", *(kind.heading for kind in KINDS), "verdict"], rows), said]
        + (["Signs of trouble:", warned] if warned else [])
    )


def of_runs(found: Any) -> str:
    """What the control runs give for every statistic."""
    names = list(dict.fromkeys(run.name for each in found for run in each.runs))
    rows = []
    for each in found:
        for place, statistic in enumerate(each.statistics):
            own = {run.name: run for run in each.runs if len(each.statistics) == 1 or run.statistic == statistic.label}
            given = [
                f"{number(run.value, each.digits)} [{number(run.low, each.digits)}, {number(run.high, each.digits)}]"
                if (run := own.get(name)) and not math.isnan(run.value) else "–"
                for name in names
            ]  # fmt: skip
            rows.append([each.key if place == 0 else "", statistic.label, statistic.interval(each.digits), *given])
    return table(["claim", "statistic", "trained", *names], rows)


def by_layer(result: headscope.Result) -> str:
    labels, columns = [], []
    for quantity, reading in ROWS:
        try:
            data = result.quantity(quantity, reading=reading or None)
        except headscope.HeadscopeError as error:
            print(f"left out: {quantity} {reading}: {error}", file=sys.stderr)
            continue
        labels.append(f"{named(quantity).label}{', ' + reading if reading else ''}")
        columns.append(data)
    layers = [str(int(layer)) for layer in columns[0].layer]
    rows = [
        [name, *(number(float(data.value[k])) for k in range(len(layers)))]
        for name, data in zip(labels, columns, strict=True)
    ]
    return table(["median over the heads of layer", *layers], rows)


def against_attention(result: headscope.Result, controls: list[headscope.Result]) -> str:
    data = result.against_attention(controls=controls)
    rows = []
    for contrast in ("sentence", "repeated"):
        for way in data.way.values.tolist():
            own = data.sel(contrast=contrast, way=way)
            rows.append([contrast, f"{way}", *(number(float(v), 3) for v in own.value)])
            for run in range(data.sizes.get("run", 0)):
                kind = str(data.kind.values[run])
                if kind == "permuted":
                    rows.append([contrast, f"{way}, {kind}", *(number(float(v), 3) for v in own.controls[run])])
    return table(["contrast", "by", *(str(int(layer)) for layer in data.layer)], rows)


def thresholds(result: headscope.Result) -> str:
    data = result.sensitivity()
    shown = [k for k, value in enumerate(data.threshold.values) if round(20 * float(value)) % 2 == 0]
    rows = [
        [str(data.claim.values[c]), {"tau": "τ", "theta": "θ"}.get(str(data.over.values[c]), ""),
         *(MARKS.get(str(data.state.values[c, k]), "") for k in shown)]
        for c in range(data.sizes["claim"])
    ]  # fmt: skip
    return table(["claim", "over", *(f"{float(data.threshold[k]):.1f}" for k in shown)], rows)


def specialists(result: headscope.Result) -> str:
    heads = result.specialists()
    rows = []
    for score, own in heads.groupby("score", sort=False):
        counts = own.what.value_counts()
        most = own[own.what == "specialist"].assign(far=lambda d: d.out.abs()).nlargest(5, "far")
        rows.append(
            [named(str(score)).label, *(str(int(counts.get(what, 0))) for what in ("specialist", "ordinary", "noise")),
             ", ".join(f"{a}.{b}" for a, b in zip(most.layer, most["head"], strict=True))]
        )  # fmt: skip
    return table(["score", "specialists", "ordinary", "noise", "farthest (layer.head)"], rows)


def stability(result: headscope.Result) -> str:
    data = result.stability()
    sizes = sorted(data.texts.unique())
    rows = []
    for score, own in data.groupby("score", sort=False):
        by_size = own.set_index("texts")
        agreed = (f"{by_size.agreement[n]:.2f} [{by_size.low[n]:.2f}, {by_size.high[n]:.2f}]" for n in sizes)
        rows.append([named(str(score)).label, *agreed])
    return table(["score", *(f"{n:,.0f} texts" for n in sizes)], rows)


def groups(result: headscope.Result) -> str:
    """How well the heads' scores agree between groups of texts."""
    data = result.group_agreement()
    pairs = list(dict.fromkeys(zip(data.group, data.other, strict=True)))
    rows = []
    for score, own in data.groupby("score", sort=False):
        found = {(row.group, row.other): row for row in own.itertuples()}
        rows.append([named(str(score)).label, *(f"{found[p].agreement:.2f} [{found[p].low:.2f}, {found[p].high:.2f}]"
                                   for p in pairs)])  # fmt: skip
    return table(["score", *(f"{a}, {b}" for a, b in pairs)], rows)


def main() -> None:
    folder = Path(sys.argv[1])
    result = headscope.Result.open(folder / "run")
    controls = [headscope.Result.open(each) for each in sorted(folder.glob("control-*"))]
    found = result.findings(controls=controls)
    parts = [
        ("Findings", findings(found)),
        ("What control runs give", of_runs(found)),
        ("By layer", by_layer(result)),
        ("S against attention", against_attention(result, controls)),
        ("At other thresholds", thresholds(result)),
        ("Specialists", specialists(result)),
        ("Stability", stability(result)),
    ]
    if len(result.groups) > 1:
        parts.append(("Agreement of groups", groups(result)))
    for title, text in parts:
        print(f"## {title}\n\n{text}\n")


if __name__ == "__main__":
    main()
