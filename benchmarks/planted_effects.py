"""How often findings recover planted effects, err on null data, and cover the truth: docs/results/planted_effects.md.

    python benchmarks/planted_effects.py [CORPORA [PROCESSES]]

Pools of 300 synthetic texts (tests/planted.py), corpora of 64 and of 1,000 texts in 32 shards drawn from them, 400
bootstrap draws each, seed 11.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import headscope
import planted
from headscope.findings.claims import CLAIMS
from simulation import POOL, Outcome, simulate

SIZES, SEED = (64, 1000), 11


def one(task: tuple[str, str, int]) -> list[Outcome]:
    key, which, number = task
    model = headscope.load()
    pool = planted.pool(model, planted.PLANTED[key][("twice", "bound", "none").index(which)](), POOL, SEED)
    return [simulate(model, key, which, size, number, seed=SEED, pool=pool) for size in SIZES]


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count() or 1
    tasks = [(claim.key, which, number) for claim in CLAIMS for which in ("twice", "bound", "none")]
    tasks = [task for task in tasks if task[:2] not in (("2", "bound"), ("7", "bound"))]
    print(f"{number} corpora of each kind, seed {SEED}\n")
    print("| claim | planted | texts | truth | holds | wrong verdict | covered | says it can tell |")
    print("|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(one, tasks):
            for outcome in found:
                print(outcome.row(), flush=True)


if __name__ == "__main__":
    main()
