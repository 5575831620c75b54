"""Which heads cut a text, and how much each of them counts: a small file that can be read, one for each model."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.files import disk_file, write_whole
from headscope.models.fingerprint import model_fingerprint
from headscope.shortcuts import HeadWeightsShortcuts

if TYPE_CHECKING:
    from headscope.models.model import Model

FORMAT = 1
LARGEST = 32 * 2**20  # bytes of a file of weights
SHIPPED = Path(__file__).parents[1] / "data" / "bert12" / "segmentation.json"
FIT = "make them from any collection of texts: headscope segment --fit TEXTS --model NAME --heads FILE"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TopicNumbers:
    """What a segment has to show for itself; docs/method.md has the formula."""

    level_near: float  # sentences belong together that are more similar than this share of what neighbours are
    level_all: float  # and this share of what all sentences of the text are on average
    cost: float  # of a segment
    cost_level: float  # the same for each unit of the text's average similarity
    cost_length: float  # and of each e-fold length
    spread: float  # sentences that are added to a segment's number of them when its similarity is averaged


@dataclass(frozen=True, slots=True)
class TopicWeights:
    """How similar two sentences are to a model's heads.

    As similar as the cosines of `heads` say, weighted: of each head's mean output, in which common tokens count
    little, with `means` taken off.
    """

    heads: tuple[tuple[int, int], ...]  # (layer, head), H of them
    weights: Floats  # (H,)
    means: Floats  # (H, d)
    common: dict[str, float]  # tokens by their share of all
    reliable: float  # the tokens, common ones hardly counted, at which a sentence counts half
    numbers: TopicNumbers


@dataclass(frozen=True, slots=True)
class SentenceWeights:
    """How likely a sentence ends between two words: a sum over what heads do there."""

    heads: tuple[tuple[int, int], ...]  # (layer, head), H of them
    weights: Floats  # (H, signals)
    offsets: Floats  # (H,), so that each head says 0 on average
    moves: Floats  # (H,), by how much what a head says varies from gap to gap: its part in deciding
    signals: tuple[str, ...]
    bias: float
    rate: float  # of sentence ends among the gaps it was learned from


@dataclass(frozen=True, slots=True)
class HeadWeights(HeadWeightsShortcuts):
    """All that cutting texts with one model needs. `recipe` tells how it was learned; `plot()` draws it."""

    model: dict[str, Any]  # its fingerprint
    stack: str
    topics: TopicWeights
    sentences: SentenceWeights
    recipe: dict[str, Any]

    def check(self, model: Model) -> None:
        """Refuse a model that these were not learned from."""
        known = model_fingerprint(model)
        same = ["config", "tokenizer", *(["weights"] if self.model.get("dtype") == _dtype(model) else [])]
        if model.control is not None or any(known[each] != self.model.get(each) for each in same):
            raise HeadscopeError(
                f"the heads that cut texts were learned for {self.model.get('name')!r}, and {model.name!r} is another "
                "model",
                FIT,
            )

    def save(self, file: str | Path) -> Path:
        """Write them as JSON."""
        content = {"format": FORMAT, **asdict(self)}
        return write_whole(disk_file(file), json.dumps(content, indent=1, default=_listed) + "\n")


def fingerprint(model: Model) -> dict[str, Any]:
    """What tells the model, for a file of weights."""
    return model_fingerprint(model) | {"dtype": _dtype(model)}


def read_head_weights(file: str | Path) -> HeadWeights:
    """Read a file of weights; whatever is wrong with it is said in one sentence.

    >>> weights = read_head_weights(SHIPPED)
    >>> weights.model["name"], weights.topics.weights.shape == (len(weights.topics.heads),)
    ('headscope/bert12', True)
    """
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError("it is far too large")
        content = json.loads(data)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        topics, sentences = _topics(content["topics"]), _sentences(content["sentences"])
        model, recipe = dict(content["model"]), dict(content["recipe"])
        return HeadWeights(model, str(content["stack"]), topics, sentences, recipe)
    except FileNotFoundError as error:
        raise HeadscopeError(f"there is no file {str(file)!r}", "check the path") from error
    except OSError as error:
        raise HeadscopeError(f"{str(file)!r} cannot be read: {error.strerror}", "check its permissions") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise HeadscopeError(f"{str(file)!r} is no file of head weights: {reason}", FIT) from error


def shipped_weights(model: Model) -> HeadWeights:
    """The embedded model's; for any other there are none before they are learned."""
    weights = read_head_weights(SHIPPED)
    if model.name != weights.model["name"]:
        raise HeadscopeError(f"headscope does not know which heads of {model.name!r} cut texts", FIT)
    return weights


def _topics(content: Any) -> TopicWeights:
    heads = _heads(content["heads"])
    weights = _numbers(content["weights"], (len(heads),))
    means = _numbers(content["means"], (len(heads), -1))
    common = {str(token): _number(share) for token, share in dict(content["common"]).items()}
    reliable = _number(content["reliable"])
    numbers = TopicNumbers(**{each.name: _number(content["numbers"][each.name]) for each in fields(TopicNumbers)})
    if (weights < 0).any() or not weights.any():
        raise ValueError("no weight may be below 0, and one must be above 0")
    if min(reliable, numbers.spread, *common.values(), 0.0) < 0:
        raise ValueError("shares of tokens, reliable and spread are at least 0")
    return TopicWeights(heads, weights, means, common, reliable, numbers)


def _sentences(content: Any) -> SentenceWeights:
    heads, signals = _heads(content["heads"]), tuple(str(each) for each in content["signals"])
    rate = _number(content["rate"])
    if not 0 < rate < 1:
        raise ValueError("a rate lies between 0 and 1")
    weights = _numbers(content["weights"], (len(heads), len(signals)))
    offsets, moves = (_numbers(content[name], (len(heads),)) for name in ("offsets", "moves"))
    if (moves < 0).any() or not moves.any():
        raise ValueError("no move may be below 0, and one must be above 0")
    return SentenceWeights(heads, weights, offsets, moves, signals, _number(content["bias"]), rate)


def _heads(content: Any) -> tuple[tuple[int, int], ...]:
    heads = tuple((int(layer), int(head)) for layer, head in content)
    if not heads or len(set(heads)) < len(heads) or min(min(each) for each in heads) < 0:
        raise ValueError("heads are pairs of layer and head, each once")
    return heads


def _number(value: Any) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no number")
    return float(value)


def _numbers(value: Any, shape: tuple[int, ...]) -> Floats:
    array = np.array(value, dtype=np.float64)
    fits = array.ndim == len(shape) and all(b in (-1, a) for a, b in zip(array.shape, shape, strict=True))
    if not fits or not np.isfinite(array).all():
        raise ValueError("the number of values does not fit the heads, or some values are not numbers")
    return array


def _listed(value: Any) -> Any:
    assert isinstance(value, np.ndarray)
    return [[_short(x) for x in row] if value.ndim == 2 else _short(row) for row in value]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _dtype(model: Model) -> str:
    return str(model.network.dtype).removeprefix("torch.")
