"""How often findings recover planted effects, err on null data, and cover the truth: docs/results/planted_effects.md.

    python benchmarks/planted_effects.py [--corpora 300] [--processes 2]

Pools of 300 synthetic texts (tests/planted.py), corpora of 64 and of 1,000 texts in 32 shards drawn from them, 300
bootstrap draws each, seed 11. Two tables: effects twice the smallest that matters, as large, and none, for every
claim; and heads that seem to do what a claim says while something else is behind it.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import headscope
from headscope.findings.claims import CLAIMS
from planted import Effects
from simulation import ALIKE, DRAWS, PLANTED, POOL, Outcome, simulate

SIZES, SEED = (64, 1000), 11
HEADING = (
    "| claim | planted | texts | truth | holds | qualified | wrong verdict | covered | says it can tell |\n"
    "|---|---|---|---|---|---|---|---|---|"
)

# What is behind the heads, and the claims that they seem to bear out.
DECEIVING: dict[str, tuple[Effects, str]] = {
    "outputs of stops and of every other sentence longer, nothing else": (
        Effects(long_stops=1.5, long_sentences=1.5), "4 8"
    ),
    "nearer tokens more similar": (Effects(near=1.0), "4"),
    "punctuation avoided": (Effects(avoid_punctuation=1.5), "4"),
    "one head has most pairs": (Effects(one_head=True), "8"),
    "similarity is attention over again": (ALIKE, "7a 7b 7c"),
}  # fmt: skip

Task = tuple[str, str, Effects, int]  # what is planted, the claims, effects, number of corpora


@lru_cache(1)
def embedded() -> headscope.Model:
    """The model whose tokenizer cuts the synthetic texts."""
    return headscope.load()


def one(task: Task) -> list[Outcome]:
    what, keys, effects, number = task
    return [
        outcome
        for size in SIZES
        for outcome in simulate(embedded(), effects, keys.split(), size, number, seed=SEED, what=what)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=int, default=300)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    planted: list[Task] = [
        (which, keys, effects, args.corpora) for keys, kinds in PLANTED.items() for which, effects in kinds.items()
    ]
    deceiving: list[Task] = [(what, keys, effects, args.corpora) for what, (effects, keys) in DECEIVING.items()]
    print(f"{args.corpora} corpora of each kind, {DRAWS} draws, pools of {POOL} texts, seed {SEED}\n")
    order = {claim.key: place for place, claim in enumerate(CLAIMS)}
    with ProcessPoolExecutor(args.processes) as pool:
        found = list(pool.map(one, planted + deceiving))
    tables = (found[: len(planted)], found[len(planted) :])
    for table in tables:
        rows = sorted((row for part in table for row in part), key=lambda row: order[row.key])
        print("\n".join((HEADING, *(row.row() for row in rows), "")), flush=True)


if __name__ == "__main__":
    main()
