"""Every variable of a result equals the naive implementation of docs/method.md, on ragged texts in padded batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import headscope
import naive_corpus
from headscope.models.forward import start_token

TEXTS = [
    'The ferryman knew the river. "The river knows me," he said (often), and the children laughed!',
    "the",
    "Rain.",
    "Naïve or not, the ferryman rowed on: 3 children, 2 dogs… The dogs barked. Nobody answered the dogs",
    "The rain fell. The rain fell on the town, and the town slept. Nobody heard the rain fall on the roofs of the "
    "town, or the wind. In the morning the town was gone.",
    "one two three four five six seven eight",
    "Wait! Wait... Who is there? Who? Nobody, said nobody.",
    "A man, a plan, a canal: a man had a plan for a canal.",
]
LENGTH = 30
CASES = {
    "bert": ("embedded", {"layers": [1, 11]}),
    "bert-special": ("embedded", {"layers": [5], "special": True, "theta": 0.6, "tau": 0.7}),
    "bert-rank-cosine": ("embedded", {"layers": [3], "scale": "rank", "similarity": "cosine"}),
    "bert-word": ("embedded", {"layers": [0], "repeated": "word"}),
    "distilbert": ("distilbert", {}),
    "gpt2": ("gpt2", {}),
    "gpt2-rank": ("gpt2", {"scale": "rank"}),
    "llama-no-start": ("llama-no-start", {}),
    "llama": ("llama", {"similarity": "cosine"}),
    "t5": ("t5", {}),
}
ONE_BY_ONE = ("bert", "gpt2-rank", "t5")  # in batches of one text too; the long tests do it with all
SUMS = ("similarity_sum", "diagonal", "attention", "attention_even", "attention_correlation", "region_sum", "mask_sum",
        "focal_expected", "focal_share", "focal_frequency", "focal_distance")  # fmt: skip


@pytest.fixture(scope="module")
def naive_sums(embedded: headscope.Model, tiny: Callable[[str], headscope.Model]) -> Callable[[str], Any]:
    """What the naive implementation counts in a case; it knows nothing of batches."""

    @cache
    def of(case: str) -> dict[str, naive_corpus.Corpus]:
        kind, options = CASES[case]
        return expected(embedded if kind == "embedded" else tiny(kind), options)

    return of


def expected(model: headscope.Model, options: dict[str, Any]) -> dict[str, naive_corpus.Corpus]:
    chosen = {key: options[key] for key in ("similarity", "scale") if key in options}
    tau, theta = options.get("tau", 0.5), options.get("theta", 0.3)
    found = {}
    for name, stack in model.stacks.items():
        layers = options.get("layers", range(stack.layers))
        found[name] = naive_corpus.Corpus(list(layers), stack.heads, LENGTH, tau, theta, chosen)
    paired = len(model.stacks) > 1
    for text in TEXTS:
        causal = model.stack().causal
        special, by_word = options.get("special", False), options.get("repeated") == "word"
        read = naive_corpus.Window(model, text, LENGTH, causal and not paired, special, by_word)
        said = read.shifted(start_token(model.network.config)) if paired else None
        heads = naive_corpus.heads_of(model, read.ids, said.ids if said else None)
        for name, corpus in found.items():
            queries = said if name in ("decoder", "cross") and said else read
            keys = read if name != "decoder" or not said else said
            corpus.add(queries, keys, *heads[name], causal=model.stacks[name].causal, cross=name == "cross")
    return found


@pytest.mark.parametrize(
    ("case", "batch"),
    [(case, 3) for case in CASES]
    + [(case, 1) for case in ONE_BY_ONE]
    + [pytest.param(case, 1, marks=pytest.mark.long) for case in CASES if case not in ONE_BY_ONE],
)
def test_every_variable_equals_the_naive_one(
    case: str,
    batch: int,
    embedded: headscope.Model,
    tiny: Callable[[str], headscope.Model],
    naive_sums: Callable[[str], dict[str, naive_corpus.Corpus]],
) -> None:
    kind, options = CASES[case]
    model = embedded if kind == "embedded" else tiny(kind)
    result = headscope.analyze(
        model, TEXTS, window=LENGTH, batch_size=batch, shard_size=4, threads=2, progress=False, **options
    )
    assert result.stacks == tuple(model.stacks)
    settled = total = 0
    for name, naive in naive_sums(case).items():
        data = result.stack(name).dataset
        cross = name == "cross"
        absent = {"region_sum", "region_pairs", "mask_sum", "mask_pairs", "attention_correlation"} if cross else set()
        names = set(naive.sums) - absent
        assert {str(v) for v in data.data_vars} == names | {"focal_tokens", "token_text"}
        for scalar in ("texts", "unsplit", "pairless"):
            assert int(data[scalar]) == naive.sums[scalar]
        for array in ("tokens", "position_pairs", "flat"):
            np.testing.assert_array_equal(data[array].values, naive.sums[array], err_msg=array)
        assert case != "bert" or int(data.pairless) == 1
        even = np.broadcast_to(data.attention_even.values, naive.sums["attention_even"].shape)
        np.testing.assert_allclose(even, naive.sums["attention_even"], rtol=1e-9)

        # Counts of heads with no level near an edge must be exact; the others may differ by the pairs near one.
        sure = (naive.doubtful == 0) & (naive.doubtful_tokens == 0)
        settled, total = settled + int(sure.sum()), total + sure.size
        for array in ("pairs", "attended", "attended_text", "region_pairs", "mask_pairs", "focal_few"):
            if array not in names:
                continue
            apart = np.abs(data[array].values - naive.sums[array]).sum(axis=tuple(range(2, data[array].ndim)))
            assert (apart[sure] == 0).all(), array
            if array == "pairs":
                assert (apart <= 2 * naive.doubtful).all()
            if array.startswith("attended"):
                assert (apart <= naive.doubtful_tokens).all()
        for array in SUMS:
            if array not in names or array == "attention_even":
                continue
            mine, theirs = data[array].values, naive.sums[array]
            if array == "focal_expected":
                mine, theirs = mine[sure.all(1)], theirs[sure.all(1)]
                np.testing.assert_allclose(mine, theirs, rtol=1e-9)
                continue
            scale = np.abs(theirs).max(axis=tuple(range(2, theirs.ndim)), keepdims=True) if theirs.ndim > 2 else theirs
            if array == "attention_correlation":
                scale = naive.absolute  # terms of both signs: the sum itself may be next to nothing
            kept = sure if array.startswith(("focal", "region", "mask")) else np.ones_like(sure)
            apart = np.abs(mine - theirs) / np.maximum(np.abs(scale), 1e-30)
            assert apart[kept].max(initial=0) < 1e-5, array
        unique = data.focal_unique.values[sure.all(1)]
        np.testing.assert_array_equal(unique, naive.sums["focal_unique"][sure.all(1)])
        for layer, head, token in naive.focal_tokens:
            if sure[list(data.layer.values).index(layer), head]:
                found = data.focal_tokens.sel(layer=layer, head=head, token=token)
                assert int(found) == naive.focal_tokens[layer, head, token]
        for k, layer in enumerate(data.layer.values):
            for head in range(naive.heads):
                if sure[k, head]:
                    windows = sum(n for (a, b, _), n in naive.focal_tokens.items() if (a, b) == (layer, head))
                    assert int(data.focal_tokens.sel(layer=layer, head=head).sum()) == windows
    assert settled >= 0.6 * total, f"only {settled} of {total} heads have no level near an edge"
