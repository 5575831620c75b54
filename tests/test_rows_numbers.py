"""Every column of the rows per text, worked out once more by plain loops over O and A of each text alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope
import naive
import naive_corpus
from headscope.measures.columns import COLUMNS
from test_corpus_numbers import LENGTH, TEXTS

TAU, THETA = 0.5, 0.3


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def row_of(window: naive_corpus.Window, o: np.ndarray, a: np.ndarray, causal: bool) -> dict[str, float] | None:
    """What one head did with one text; None where it is so near an edge that rounding decides."""
    size = len(window.ids)
    may_read = np.tril(np.ones((size, size), dtype=bool)) if causal else np.ones((size, size), dtype=bool)
    even = may_read / may_read.sum(1, keepdims=True)
    row = {}
    for category in ("stop", "end"):
        own = [j for j, c in enumerate(window.category) if c == category]
        row[f"{category}_focus"] = a[:, own].sum() / even[:, own].sum() if own else float("nan")
    places = naive.pairs(window.counting)
    matrix = naive.similarity(o, False)
    level = naive.levels(matrix, places, False) if places else None
    if level is None:
        return row | {"high_pairs": 0.0}
    if any(abs(20 * x - round(20 * x)) < naive_corpus.NEAR for x in level if x < 1):
        return None
    relation = {
        (i, j): naive.relation(i, j, window.again, window.category, window.word, window.sentence) for i, j in places
    }
    high = [place for place, x in zip(places, level, strict=True) if naive.bin_of(x) >= round(20 * TAU) + 1]
    row["high_pairs"] = float(len(high))
    row["distance"] = mean([j - i for i, j in high])
    for name, kinds in (("sentence", ("sentence", "both")), ("repetition", ("repeated", "both")), ("stop", ("stop",))):
        row[f"{name}_share"] = mean([float(relation[place] in kinds) for place in high])
    chances = []
    for i, j in high:
        at = [relation[p] for p in places if p[1] - p[0] == j - i]
        comparable = [r for r in at if r in ("stop", "sentence", "none")]
        chances.append(at.count("stop") / len(comparable) if relation[i, j] in ("stop", "sentence", "none") else 0.0)
    row["stop_expected"] = mean(chances)
    row["focal_share"] = naive.focal(high, window.ids, window.counting)[1]
    row["likeness"] = naive.correlation(matrix, a, places)
    got = naive.received(a, may_read)
    counting = [j for j, c in enumerate(window.counting) if c]
    among = {j: got[j] / max(got[i] for i in counting) for j in counting}
    inside = [x for (i, j), x in zip(places, level, strict=True) if among[i] > THETA and among[j] > THETA]
    outside = [x for (i, j), x in zip(places, level, strict=True) if not among[i] > THETA and not among[j] > THETA]
    row["mask_contrast"] = mean(inside) - mean(outside)
    return row


@pytest.mark.parametrize("kind", ["distilbert", "llama"])
def test_every_column_equals_the_naive_one(kind: str, tiny: Callable[[str], headscope.Model], tmp_path: Path) -> None:
    model = tiny(kind)
    headscope.analyze(
        model, [(str(k), text) for k, text in enumerate(TEXTS)], out=tmp_path / "run", per_text=True, window=LENGTH,
        batch_size=3, shard_size=4, progress=False,
    )  # fmt: skip
    heads, texts = (pd.read_parquet(tmp_path / "run" / name) for name in ("heads.parquet", "texts.parquet"))
    causal, checked = model.stack().causal, dict.fromkeys(COLUMNS, 0)
    for text in texts.itertuples():
        window = naive_corpus.Window(model, TEXTS[int(text.id)], LENGTH, causal)
        outputs, weights = next(iter(naive_corpus.heads_of(model, window.ids, None).values()))
        own = heads[heads["text"] == text.text]
        for layer in range(len(outputs)):
            rows = own[own["layer"] == layer].set_index("head")
            for head in range(outputs.shape[1]):
                expected = row_of(window, outputs[layer, head], weights[layer, head], causal)
                for name, value in (expected or {}).items():
                    assert rows[name][head] == pytest.approx(value, rel=1e-4, abs=1e-5, nan_ok=True), (
                        name,
                        layer,
                        head,
                    )
                    checked[name] += np.isfinite(value)
            drawing = int((rows["focal_id"] >= 0).sum())
            counted = [t for t, c in zip(window.ids, window.counting, strict=True) if c]
            chance = sum(1 - (1 - counted.count(t) / len(counted)) ** drawing for t in set(counted)) if counted else 0
            np.testing.assert_allclose(rows["focal_expected"], chance, rtol=1e-5)
            checked["focal_expected"] += 1
    if not model.template.end:
        del checked["end_focus"]  # there is no closing special token
    assert min(checked.values()) >= 10, checked
