"""Every variable of a result equals the naive implementation of docs/method.md, on ragged texts in padded batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("embedded", {"layers": [11], "window": 44}),  # long enough for sampling and for top pairs
    "bert-special": ("embedded", {"layers": [5], "special": True, "theta": 0.6, "tau": 0.7, "readings": "dot"}),
    "bert-rank": ("embedded", {"layers": [3], "scale": "rank", "readings": ("cosine", "dot")}),
    "bert-every-reading": ("embedded", {"layers": [8], "readings": ("centred", "values", "cosine", "dot")}),
    "bert-word": ("embedded", {"layers": [0], "repeated": "word"}),
    "bert-all-windows": ("embedded", {"layers": [10], "windows": "all", "window": 22}),
    "roberta": ("roberta", {}),
    "distilbert": ("distilbert", {}),
    "gpt2": ("gpt2", {}),
    "gpt2-rank": ("gpt2", {"scale": "rank"}),
    "llama-no-start": ("llama-no-start", {"readings": ("dot", "values")}),
    "llama": ("llama", {"readings": ("cosine",)}),
    "mistral": ("mistral", {}),  # a sliding window
    "t5": ("t5", {}),
}
QUICK = ("bert", "bert-every-reading", "gpt2-rank", "llama-no-start", "mistral", "roberta", "t5")  # the rest is long
ONE_BY_ONE = ("bert",)  # in batches of one text too; the long tests do it with all
SLIDING = {"mistral": 6}  # tokens that a token may read, itself included


@pytest.fixture(scope="module")
def naive_sums(embedded: headscope.Model, tiny: Callable[[str], headscope.Model]) -> Callable[[str], Any]:
    """What the naive implementation counts in a case; it knows nothing of batches."""

    @cache
    def of(case: str) -> dict[str, naive_corpus.Corpus]:
        kind, options = CASES[case]
        return expected(embedded if kind == "embedded" else tiny(kind), options, SLIDING.get(kind))

    return of


def expected(model: headscope.Model, options: dict[str, Any], sliding: int | None) -> dict[str, naive_corpus.Corpus]:
    length, tau, theta = options.get("window", LENGTH), options.get("tau", 0.5), options.get("theta", 0.3)
    readings = options.get("readings", ("dot", "cosine"))
    chosen = {"readings": (readings,) if isinstance(readings, str) else readings, "scale": options.get("scale", "max")}
    corpora = {}
    for name, stack in model.stacks.items():
        layers = options.get("layers", range(stack.layers))
        corpora[name] = naive_corpus.Corpus(list(layers), stack.heads, length, tau, theta, chosen)
    for read in windows(model, options, length):
        said = read.shifted(start_token(model.network.config)) if len(model.stacks) > 1 else None
        heads = naive_corpus.heads_of(model, read.ids, said.ids if said else None)
        for name, corpus in corpora.items():
            queries = said if name in ("decoder", "cross") and said else read
            keys = read if name != "decoder" or not said else said
            may = np.ones((len(queries.ids), len(keys.ids)), dtype=bool)
            if model.stacks[name].causal:
                may = np.tri(len(may), dtype=bool) & ~np.tri(len(may), k=-(sliding or len(may)), dtype=bool)
            corpus.add(queries, keys, *heads[name], may, cross=name == "cross")
    return corpora


def windows(model: headscope.Model, options: dict[str, Any], length: int) -> Iterator[naive_corpus.Window]:
    causal = model.stack().causal and len(model.stacks) == 1
    for text in TEXTS:
        first, total = 0, 1
        while first < total:
            read = naive_corpus.Window(
                model, text, length, causal, options.get("special", False), options.get("repeated") == "word", first
            )
            yield read
            first, total = first + read.room, read.total if options.get("windows") == "all" else 0


@pytest.mark.parametrize(
    ("case", "batch"),
    [pytest.param(case, 3, marks=[] if case in QUICK else pytest.mark.long) for case in CASES]
    + [pytest.param(case, 1, marks=[] if case in ONE_BY_ONE else pytest.mark.long) for case in CASES],
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
        model, TEXTS, batch_size=batch, shard_size=4, threads=2, progress=False, **({"window": LENGTH} | options)
    )
    assert result.stacks == tuple(model.stacks)
    sure = total = 0
    for name, naive in naive_sums(case).items():
        data = result.stack(name).dataset
        assert {str(v) for v in data.data_vars} == {*naive.sums, "focal_tokens", "token_text"}
        compared = Compared(naive, data)
        for variable in naive.sums:
            compared.check(variable)
        compared.check_focal_tokens()
        sure, total = sure + int(compared.sure.sum()), total + compared.sure.size
    assert case != "bert" or int(data.pairless) == 1
    assert sure >= 0.6 * total, f"only {sure} of {total} heads have no level near an edge"


class Compared:
    """A result beside the naive sums. What rounding may decide is allowed to differ by exactly that much.

    `sure` (L, H) are heads of which no level and no attention is near an edge: their counts must be exact.
    """

    EXACT = ("texts", "unsplit", "pairless", "tokens", "position_pairs", "base_pairs", "flat")
    OF_LEVELS = ("pairs", "distance_sum", "focal_few", "focal_share", "focal_frequency", "focal_distance", "matched",
                 "focal_longest")  # fmt: skip
    OF_TOKENS = ("attended", "attended_text")

    def __init__(self, naive: naive_corpus.Corpus, data: Any) -> None:
        self.naive, self.data = naive, data
        self.tokens = naive.doubtful_tokens == 0
        self.levels = naive.doubtful == 0
        self.top = naive.doubtful_top == 0  # (R, L, H)
        self.sure = self.levels & self.tokens

    def check(self, name: str) -> None:
        mine, theirs = self.data[name].values, np.asarray(self.naive.sums[name])
        if name in ("wins", "attention_wins", "contrast_weight"):  # the naive one has no column for what is not there
            assert not mine[..., theirs.shape[-1] :].any(), name
            mine = mine[..., : theirs.shape[-1]]
        assert mine.shape == theirs.shape, name
        apart = np.abs(mine - theirs)
        scale = np.abs(theirs).max(initial=1e-30)
        if name in self.EXACT:
            assert not apart.any(), name
        elif name in self.OF_LEVELS:
            kept = self.levels & (self.naive.doubtful_longest == 0) if name == "focal_longest" else self.levels
            assert apart[kept].max(initial=0) <= 1e-5 * scale, name
            if name == "pairs":
                assert not apart[self.levels].any()
                assert (apart.sum((2, 3, 4)) <= 2 * self.naive.doubtful).all()
        elif name in self.OF_TOKENS:
            assert (apart.sum((2, 3)) <= self.naive.doubtful_tokens).all(), name
        elif name in ("mask_sum", "mask_pairs"):
            assert apart[self.sure].max(initial=0) <= 1e-5 * scale, name
        elif name in ("focal_unique", "focal_null"):
            assert not apart[self.levels.all(1)].any(), name
        elif name == "contrast_weight":
            assert apart[..., :3].max() <= 1e-9 * scale
            assert apart[self.tokens].max(initial=0) <= 1e-9 * scale
        elif name == "wins":
            near = self.naive.doubtful_order[..., None] + 1e-9 * scale  # (R, L, H, 1)
            assert (apart[..., :3] <= near).all()
            assert (apart <= near)[:, self.tokens].all()
        elif name == "attention_wins":
            assert (apart <= self.naive.doubtful_maps[..., None] + 1e-9 * scale).all()
        elif name in ("top_pairs", "top_matched"):
            summed = apart.sum((3, 4)) if name == "top_pairs" else apart.max((3, 4))
            assert (summed <= self.naive.doubtful_top + 1e-9 * scale).all(), name
        elif name == "top_few":
            assert not apart[self.top].any()
        elif name in ("top_unique", "top_null"):
            assert not apart[self.top.all(2)].any(), name
        elif name == "top_mixed":
            assert apart[self.top.all((1, 2))].max(initial=0) <= 1e-9 * scale
        elif name in self.naive.slack:
            settled = self.top if name == "norm_correlation" else np.ones_like(apart, dtype=bool)
            assert (apart <= self.naive.slack[name] + 1e-5)[settled].all(), name
        else:  # sums of floats
            own = np.abs(theirs).max(tuple(range(2, theirs.ndim)), keepdims=True) if theirs.ndim > 2 else np.abs(theirs)
            assert (apart <= 1e-5 * np.maximum(own, 1e-30)).all(), name

    def check_focal_tokens(self) -> None:
        named = {(layer, head, token): n for (layer, head, token), n in self.naive.focal_tokens.items()}
        for k, layer in enumerate(self.data.layer.values):
            for head in np.flatnonzero(self.levels[k]):
                own = self.data.focal_tokens.sel(layer=layer, head=head)
                counted = {int(t): int(n) for t, n in zip(own.token.values, own.values, strict=True) if n}
                theirs = {token: n for (a, b, token), n in named.items() if (a, b) == (layer, head)}
                assert counted == theirs
