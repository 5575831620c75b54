"""What is accumulated: every variable of a result, declared once.

Its storage, how results are added, the attributes in result.nc and the table in the reference follow from the
declaration. A variable of your own is declared in the same way, with a function that fills it:

>>> def longest(batch, sums):  # the largest |O_i|² of each head, summed over windows
...     sums += batch.norms.max(-1).sum(0)
>>> _ = declare(Variable("longest", ("layer", "head"), "sum of the largest |O_i|²", kind="sum", fill=longest))
>>> VARIABLES["longest"].dims
('layer', 'head')
>>> withdraw("longest")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from headscope.choices import BINS, LONGEST_SUMMED, THRESHOLDS
from headscope.errors import HeadscopeError
from headscope.measures.bands import band_names
from headscope.measures.comparisons import COMPARISONS, CONTRASTS, SIDES
from headscope.measures.relations import RELATIONS
from headscope.windows import CATEGORIES

if TYPE_CHECKING:
    from headscope.measures.accumulator import LayerBatch

REGIONS = ("inside", "edge", "outside")
MAPS = ("direct", "rows")  # do two tokens read each other, do they read the same
Array = NDArray[Any]
Sums = dict[str, dict[str, Array]]  # by stack and variable
Fill = Callable[["LayerBatch", Array], None]


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides how large the sums of one attention stack are."""

    layers: tuple[int, ...]
    heads: int
    length: int  # tokens in the longest window
    relations: tuple[str, ...] = ()  # names of the caller's own relations
    cross: bool = False  # cross-attention: attention maps and pairs are of different tokens
    readings: tuple[str, ...] = ("dot", "cosine")  # how S is read; the first is the main reading

    @property
    def maps(self) -> tuple[str, ...]:
        """What attention says of a pair: rows of long maps are not compared."""
        return MAPS if self.length <= LONGEST_SUMMED else MAPS[:1]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of variables: what its coordinate means, and the coordinate's values."""

    meaning: str
    values: Callable[[Shape], Any]


DIMENSIONS: dict[str, Dimension] = {
    "layer": Dimension("layer, from 0", lambda shape: np.array(shape.layers, dtype=np.int64)),
    "head": Dimension("head, from 0", lambda shape: np.arange(shape.heads)),
    "i": Dimension(
        "position of the first token in the window, special tokens included", lambda shape: np.arange(shape.length)
    ),
    "j": Dimension("position of the second token", lambda shape: np.arange(shape.length)),
    "level": Dimension(
        "bin of the pair's level: 0 negative, k for [(k-1)/20, k/20), the maximum in 20", lambda _: np.arange(BINS)
    ),
    "distance": Dimension("j - i", lambda shape: np.arange(1, max(shape.length, 2))),
    "band": Dimension("band of distances, named by them", lambda shape: band_names(shape.length)),
    "relation": Dimension("relation of the two tokens, the first that applies", lambda _: RELATIONS),
    "category": Dimension("category of the token", lambda _: CATEGORIES),
    "region": Dimension("both tokens of the pair high in attention, one, none", lambda _: REGIONS),
    "threshold": Dimension("τ: a pair is high when its level is at least τ", lambda _: np.array(THRESHOLDS)),
    "attention_threshold": Dimension(
        "θ: a token is high when it receives more than θ of the most attended one's attention",
        lambda _: np.array(THRESHOLDS),
    ),
    "unique": Dimension("number of different focal tokens", lambda shape: np.arange(shape.heads + 1)),
    "reading": Dimension("how S is read: dot, cosine, …", lambda shape: shape.readings),
    "map": Dimension(
        "how attention is read: two tokens that read each other, or that read the same", lambda shape: shape.maps
    ),
    "contrast": Dimension("which class of pairs is compared with the other", lambda _: CONTRASTS),
    "comparison": Dimension("which two classes of pairs are matched", lambda _: COMPARISONS),
    "side": Dimension("a: high pairs of class 1, b: of class 0, each weighed by the other's number", lambda _: SIDES),
    "token": Dimension("token id", lambda _: np.zeros(0, dtype=np.int64)),  # only a finished run knows which occur
}


@dataclass(frozen=True, slots=True)
class Variable:
    """One accumulated variable.

    A "count" is an exact integer, a "sum" is carried in float64. What is kept for each "block" of texts can have
    intervals; what takes too much room for that is kept for each "group" of texts and in all.
    """

    name: str
    dims: tuple[str, ...]
    meaning: str
    kind: Literal["count", "sum"] = "count"
    kept: Literal["block", "group"] = "block"
    needs_map: bool = False  # not in cross-attention, where attention maps and pairs are of different tokens
    longest: int | None = None  # only for windows of at most so many tokens
    of_attention: bool = False  # made of the attention maps
    fill: Fill | None = None  # adds one layer of a batch; None where headscope's own loops do

    @property
    def dtype(self) -> Any:
        """The type it is accumulated in."""
        return np.int64 if self.kind == "count" else np.float64

    def is_of(self, shape: Shape) -> bool:
        """Whether a stack of this shape has it."""
        return not (self.needs_map and shape.cross) and (self.longest is None or shape.length <= self.longest)

    def dims_of(self, shape: Shape) -> tuple[str, ...]:
        """Its dimensions in a stack of this shape: distances of long windows are told apart by band alone."""
        return self.dims if shape.length <= LONGEST_SUMMED or self.dims != _PAIRS else _PAIRS_BY_BAND

    @property
    def dims_of_block(self) -> tuple[str, ...]:
        """Its dimensions in a block of texts: there too, pairs are told apart by band."""
        return self.dims if self.dims != _PAIRS else _PAIRS_BY_BAND

    def zeros(self, shape: Shape) -> Array:
        """Empty sums for a stack of this shape."""
        return np.zeros([len(DIMENSIONS[dim].values(shape)) for dim in self.dims_of(shape)], dtype=self.dtype)


_HEADS = ("layer", "head")
_PAIRS = (*_HEADS, "level", "distance", "relation")
_PAIRS_BY_BAND = (*_HEADS, "level", "band", "relation")
_REGIONS = (*_HEADS, "attention_threshold", "region")
_READ = ("reading", *_HEADS)
FOCAL_TOKENS = "focal_tokens"  # sparse: its entries are kept as rows of layer, head, token and number
MATRIX = "similarity_sum"
_ALL = (
    Variable("texts", (), "number of windows"),
    Variable("unsplit", (), "number of windows of texts in which one sentence was found"),
    Variable("pairless", (), "number of windows with fewer than two tokens that count"),
    Variable("tokens", ("category",), "number of tokens"),
    Variable("position_pairs", ("i", "j"), "number of windows in which i < j is a pair", kept="group"),
    Variable("base_pairs", ("distance", "relation"), "number of pairs: the base rate of every statistic of pairs"),
    Variable("attention", (*_HEADS, "category"),
             "sum over windows of the mean, over tokens that read, of the weight given to the category", "sum",
             of_attention=True),
    Variable("attention_even", ("layer", "category"), "the same for attention spread evenly: the base rate", "sum",
             of_attention=True),
    Variable("attention_weighted", (*_HEADS, "category"),
             "sum over windows of the category's share of attention times length of what is read", "sum",
             of_attention=True),
    Variable("attention_entropy", _HEADS,
             "sum over windows of the mean, over tokens that may read two or more, of the entropy of their attention "
             "over the largest possible", "sum", of_attention=True),
    Variable("attended", (*_HEADS, "attention_threshold", "category"), "number of high-attention tokens",
             of_attention=True),
    Variable("attended_text", (*_HEADS, "attention_threshold", "category"),
             "number of high-attention tokens among those that count", of_attention=True),
    Variable("attention_wins", ("map", *_HEADS, "contrast"),
             "wins of class 1 by each map, of the contrasts of relations; 0 for inside", "sum", needs_map=True,
             of_attention=True),
    Variable("contrast_weight", (*_HEADS, "contrast"), "sum of the weights of the comparisons", "sum"),
    Variable("wins", (*_READ, "contrast"), "wins of class 1 by S", "sum"),
    Variable("top_pairs", (*_READ, "band", "relation"), "number of top pairs"),
    Variable("top_few", _READ, "number of windows with pairs but without top pairs"),
    Variable("top_matched", (*_READ, "comparison", "side"), "matched counts of top pairs", "sum"),
    Variable("top_unique", ("reading", "layer", "unique"),
             "number of windows in which the heads have so many different focal tokens, taken from the top pairs"),
    Variable("top_null", ("reading", "layer", "unique"),
             "the same where ids that occur equally often have exchanged their sums"),
    Variable("top_mixed", ("reading",),
             "sum over windows of the different focal tokens of as many heads drawn from all layers", "sum"),
    Variable("attention_correlation", ("reading", "map", *_HEADS),
             "sum over windows of the correlation over pairs between S and the map", "sum", needs_map=True,
             of_attention=True),
    Variable("norm_correlation", _READ,
             "sum over windows of the correlation over tokens between |O_i| and the number of top pairs it is in",
             "sum"),
    Variable(MATRIX, (*_HEADS, "i", "j"), "sum of S over windows, filled for i < j", "sum", "group",
             longest=LONGEST_SUMMED),
    Variable("pairs", _PAIRS, "number of pairs"),
    Variable("distance_sum", (*_HEADS, "level", "relation"), "sum of the distances of the pairs"),
    Variable("matched", (*_HEADS, "comparison", "side"), "matched counts of high pairs at the run's τ", "sum"),
    Variable("flat", _HEADS, "number of flat matrices: the largest S is not positive"),
    Variable("diagonal", _HEADS, "sum over windows, not flat, of the mean of the diagonal over the largest S", "sum"),
    Variable("mask_sum", _REGIONS, "sum of levels of pairs, not flat, at every θ", "sum", needs_map=True,
             of_attention=True),
    Variable("mask_pairs", _REGIONS, "number of pairs, not flat, at every θ", needs_map=True, of_attention=True),
    Variable("focal_unique", ("layer", "threshold", "unique"),
             "number of windows in which the heads have so many different focal tokens"),
    Variable("focal_null", ("layer", "threshold", "unique"),
             "the same where ids that occur equally often have exchanged their sums"),
    Variable("focal_share", (*_HEADS, "threshold"), "sum over windows of the focal token's share", "sum"),
    Variable("focal_few", (*_HEADS, "threshold"), "number of windows with one to nine high pairs"),
    Variable("focal_frequency", _HEADS, "sum over windows of the focal token's frequency, at the run's τ", "sum"),
    Variable("focal_distance", _HEADS,
             "sum over windows of the mean distance of the pairs with the focal token, at the run's τ", "sum"),
    Variable("focal_longest", _HEADS,
             "number of windows whose focal token at the run's τ is the one with the longest output"),
    Variable(FOCAL_TOKENS, (*_HEADS, "token"), "number of windows in which the token id is focal, at the run's τ",
             kept="group"),
)  # fmt: skip
VARIABLES: dict[str, Variable] = {variable.name: variable for variable in _ALL}


def declare(variable: Variable) -> Variable:
    """Add a variable of your own; from then on every run accumulates it."""
    if variable.name in VARIABLES or variable.name.startswith("pairs_") or not variable.name.isidentifier():
        raise HeadscopeError(f"a variable cannot be called {variable.name!r}", "use a new name of letters and digits")
    unknown = [dim for dim in variable.dims if dim not in DIMENSIONS]
    if unknown:
        raise HeadscopeError(f"there is no dimension {unknown[0]!r}", f"use some of {', '.join(DIMENSIONS)}")
    if variable.fill is None:
        raise HeadscopeError(f"nothing fills {variable.name!r}", "give fill=, a function of a layer and the sums")
    if "layer" not in variable.dims:  # layers of several batches are added at once, each in its own place
        raise HeadscopeError(f"{variable.name!r} has no dimension 'layer'", "keep it for each layer")
    VARIABLES[variable.name] = variable
    return variable


def withdraw(name: str) -> None:
    """Take back a variable of your own."""
    if VARIABLES.get(name, _ALL[0]).fill is None:
        raise HeadscopeError(f"{name!r} is not a variable of yours", "withdraw what was declared with fill=")
    del VARIABLES[name]


def variable(name: str) -> Variable:
    """What a variable of a result is; the caller's own relations are called pairs_NAME.

    >>> variable("flat").dims
    ('layer', 'head')
    """
    if name.startswith("pairs_"):
        return Variable(name, _PAIRS, "number of pairs whose two tokens have the same label; a part of `pairs`")
    if name not in VARIABLES:
        raise HeadscopeError(f"there is no variable {name!r} here", "declare it as it was when the run was made")
    return VARIABLES[name]


def variables_of(shape: Shape) -> list[Variable]:
    """The variables that a stack of this shape has."""
    custom = [variable(f"pairs_{name}") for name in shape.relations]
    return [each for each in (*VARIABLES.values(), *custom) if each.is_of(shape)]


def coordinates(shape: Shape) -> dict[str, Array]:
    """The coordinates of one stack's dataset: of every dimension that one of its variables has."""
    used = {dim for each in variables_of(shape) for dim in each.dims_of(shape)}
    values = {name: dimension.values(shape) for name, dimension in DIMENSIONS.items() if name in used}
    return {name: np.array(each, dtype=object) if isinstance(each, tuple) else each for name, each in values.items()}
