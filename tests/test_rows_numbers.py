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
import naive_order
from headscope.measures.columns import COLUMNS
from test_corpus_numbers import TEXTS as SHORT

TAU, THETA = 0.5, 0.3
LENGTH = 72
AGAIN = "The wind fell on the rain, and the rain fell on the town. "
TEXTS = [*SHORT, f"{SHORT[4]} {SHORT[6]} {SHORT[3]}", f"{SHORT[7]} {SHORT[4]}", AGAIN * 5]  # enough repetitions
IDS = ("focal", "focal_null")
MATCHED = {"sentence_preference": "sentence", "repetition_preference": "repetition", "separator_similarity": "stop"}


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


class Head:
    """What one head did with one text; what is so near an edge that rounding decides is left out."""

    def __init__(self, window: naive_corpus.Window, o: np.ndarray, a: np.ndarray, causal: bool) -> None:
        size = len(window.ids)
        self.window, self.outputs, self.attention = window, o, a
        self.may_read = np.tril(np.ones((size, size), dtype=bool)) if causal else np.ones((size, size), dtype=bool)
        self.pairs = naive_order.Pairs(window)

    def row(self, layer: int, head: int) -> dict[str, float]:
        row = {f"separator_focus_{name}": naive.focus(self.attention, self.may_read, self.window.category, name)
               for name in ("stop", "end")}  # fmt: skip
        if not self.pairs.places:
            return row | {"high_pairs": 0.0, "focal": -1, "focal_null": -1}
        matrix = naive_order.similarity(self.outputs, None, self.pairs.counting, "dot")
        return row | self.of_levels(matrix, layer, head) | self.of_order(self.pairs.of(matrix))

    def of_levels(self, matrix: np.ndarray, layer: int, head: int) -> dict[str, float]:
        pairs = self.pairs
        level = naive.levels(matrix.astype(np.float64), pairs.places)
        if level is not None and naive_corpus.near_levels(level):
            return {}
        bins = [0] * len(pairs.places) if level is None else [naive.bin_of(x) for x in level]
        numbers = [number for number, b in enumerate(bins) if b >= round(20 * TAU) + 1]
        high = [pairs.places[number] for number in numbers]
        row = {
            "high_pairs": float(len(high)),
            "mean_distance": mean([j - i for i, j in high]),
            "sentence_share": mean([float(pairs.relations[n] in ("sentence", "both")) for n in numbers]),
            "repetition_share": mean([float(pairs.relations[n] in ("repeated", "both")) for n in numbers]),
        }
        focal, share = naive.focal(high, pairs.ids, pairs.counting) or (-1, float("nan"))
        null = naive_order.null_focal(high, pairs, layer, head)
        row |= {"focal": focal, "focal_share": share, "focal_null": -1 if null is None else null}
        matched = naive_order.matched(numbers, pairs.relations, pairs.bands)
        for name, comparison in MATCHED.items():
            a, b = matched[list(naive_order.COMPARISONS).index(comparison)]
            row[name] = (a + 0.5) / (b + 0.5) if a + b >= 5 else float("nan")
        return row

    def of_order(self, values: list[float]) -> dict[str, float]:
        pairs = self.pairs
        maps = [pairs.of(naive_order.attention_map(self.attention, self.may_read, name)) for name in naive_order.MAPS]
        row = {"likeness": max(naive.pearson(values, each) for each in maps)}
        cuts = naive_order.edges(values, pairs.key)
        if naive_order.doubtful(values, cuts):
            return row
        bins, none = naive_order.order(values, cuts), pairs.related(("none",))
        classes = {f"separation_{name}": (pairs.related(names), none) for name, names in naive_order.CONTRASTS.items()}
        got = naive.received(self.attention, self.may_read)
        largest = max(got[j] for j in pairs.own)
        among = {j: got[j] / largest for j in pairs.own}
        if not any(abs(x - THETA) < naive_corpus.NEAR_TOKEN for x in among.values()):
            where = naive_corpus.regions(among, THETA, pairs.places)
            classes["mask_auc"] = tuple([p for p, region in enumerate(where) if region == one] for one in (0, 2))
        for name, (ones, zeros) in classes.items():
            wins, weight = naive_order.contrast(bins, ones, zeros, pairs.bands)
            row[name] = wins / weight if weight else float("nan")
        return row


@pytest.mark.parametrize("kind", ["distilbert", "llama"])
def test_every_column_equals_the_naive_one(kind: str, tiny: Callable[[str], headscope.Model], tmp_path: Path) -> None:
    model = tiny(kind)
    headscope.analyze(
        model, [(str(k), text) for k, text in enumerate(TEXTS)], out=tmp_path / "run", per_text=True, window=LENGTH,
        batch_size=3, shard_size=4, progress=False,
    )  # fmt: skip
    heads, texts = (pd.read_parquet(tmp_path / "run" / name) for name in ("heads.parquet", "texts.parquet"))
    assert {*COLUMNS, *IDS, "focal_token", "text", "stack", "layer", "head"} == set(heads.columns)
    assert (heads["focal_token"].isna() == (heads["focal"] == -1)).all()
    causal, checked = model.stack().causal, dict.fromkeys([*COLUMNS, *IDS], 0)
    for text in texts.itertuples():
        window = naive_corpus.Window(model, TEXTS[int(text.id)], LENGTH, causal)
        outputs, weights, _ = next(iter(naive_corpus.heads_of(model, window.ids, None).values()))
        own = heads[heads["text"] == text.text]
        written: dict[int, list[str]] = {}  # as the text has it
        for token, label in zip(
            window.ids, model.inspect(TEXTS[int(text.id)], window=LENGTH).window.labels, strict=True
        ):
            written.setdefault(token, []).append(label)
        for token, word in own[own["focal"] >= 0][["focal", "focal_token"]].itertuples(index=False):
            assert written[token].count(word) == max(map(written[token].count, written[token]))
        for layer in range(len(outputs)):
            rows = own[own["layer"] == layer].set_index("head")
            for head in range(outputs.shape[1]):
                expected = Head(window, outputs[layer, head], weights[layer, head], causal).row(layer, head)
                for name, value in expected.items():
                    found = pytest.approx(value, rel=1e-4, abs=1e-4, nan_ok=True)
                    assert rows[name][head] == found, (name, layer, head, text.id)
                    checked[name] += np.isfinite(value)
    if not model.template.end:
        del checked["separator_focus_end"]  # there is no closing special token
    assert min(checked.values()) >= 10, checked
