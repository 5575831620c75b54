"""What bfloat16 changes: every derived number of a run in bfloat16 against the same run in float32.

    python benchmarks/bfloat16.py [--texts FILE] [--limit 256] [--device cpu] [--model MODEL]

Prints a Markdown table: for each column of the summaries, the largest and the median difference over layers and over
heads, beside the spread of that number over the heads, and how many pairs change their bin. Then the verdicts of both,
and the time of both runs.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pandas as pd

import headscope

SKIPPED = ("layer", "head", "focal_token", "focal_windows", "flat")


def run(args: argparse.Namespace, dtype: str) -> tuple[headscope.Result, float]:
    model = headscope.load(args.model, device=args.device, dtype=dtype)
    headscope.analyze(model, ["Warm up. Once."], progress=False)
    began = time.perf_counter()
    result = headscope.analyze(model, args.texts, limit=args.limit, batch_size=args.batch, progress=False)
    return result, time.perf_counter() - began


def differences(one: pd.DataFrame, other: pd.DataFrame) -> dict[str, tuple[float, float, float]]:
    found = {}
    for column in one.columns:
        if column in SKIPPED or column not in other:
            continue
        a, b = one[column].to_numpy(float), other[column].to_numpy(float)
        apart = np.abs(a - b)
        found[column] = (np.nanmax(apart), np.nanmedian(apart), np.nanstd(a))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", default="passages:")
    parser.add_argument("--limit", type=int, default=256)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model")
    args = parser.parse_args()
    (full, slow), (half, fast) = run(args, "float32"), run(args, "bfloat16")
    print(f"{full.model['name']}, {int(full.dataset.texts):,} windows on {args.device}: {slow:.1f} s in float32, "
          f"{fast:.1f} s in bfloat16\n")  # fmt: skip
    a, b = (r.dataset.pairs.sum(["distance", "relation"]).values for r in (full, half))
    print(f"At least {np.abs(a - b).sum() / 2 / a.sum():.2%} of the pairs change their bin.\n")
    print("| number | layers: largest | median | heads: largest | median | spread over heads |")
    print("|---|---|---|---|---|---|")
    layers = differences(full.layer_summary(), half.layer_summary())
    heads = differences(full.summary(), half.summary())
    for name in {**layers, **heads}:
        cells = [f"{x:.3g}" for x in layers[name][:2]] if name in layers else ["–", "–"]
        cells += [f"{x:.3g}" for x in heads[name]] if name in heads else ["–", "–", "–"]
        print(f"| {name} | {' | '.join(cells)} |")
    same = (full.summary().focal_token == half.summary().focal_token).mean()
    print(f"\n{same:.0%} of the heads keep their most frequent focal token.\n")
    print("| claim | float32 | bfloat16 | verdict in float32 | in bfloat16 |")
    print("|---|---|---|---|---|")
    for one, other in zip(full.findings(), half.findings(), strict=True):
        print(f"| {one.key} | {one.interval()} | {other.interval()} | {one.verdict} | {other.verdict} |")


if __name__ == "__main__":
    main()
