"""A view of block sums: at a τ in the main reading, or through the top pairs of any reading.

Each method gives the sums that a formula takes, with the dimensions (block, layer, head, …); a layer or head dimension
of 1 stands for what is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headscope.choices import BINS, first_high_bin, step_of
from headscope.errors import HeadscopeError
from headscope.measures.block_sums import BlockSums
from headscope.measures.comparisons import COMPARED, COMPARISONS, CONTRASTS
from headscope.measures.derived import Array
from headscope.measures.relations import BOTH, SAME_SENTENCE
from headscope.measures.variables import REGIONS, variable
from headscope.windows import CATEGORIES

WITHIN = (SAME_SENTENCE, BOTH)  # the relations of two words of one sentence
Sums = tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class View:
    """How block sums are read.

    Without a `reading`: the paper's way, high pairs at `tau` in the main reading. With one: its top pairs, a sixteenth
    of all, where a number needs some pairs to be called high; its order or correlation, where it does not.
    """

    sums: BlockSums
    tau: float | None = None  # None: the run's own
    theta: float | None = None  # None: the run's own
    reading: str | None = None

    def by(self, reading: str | None) -> View:
        """The same sums through another reading."""
        return replace(self, reading=reading)

    @property
    def at(self) -> float:
        """τ."""
        return self.sums.tau if self.tau is None else self.tau

    @property
    def place(self) -> int:
        """Where the reading stands among those of the run; the main one without a reading."""
        return 0 if self.reading is None else self.sums.readings.index(self.reading)

    @property
    def over_windows(self) -> bool:
        """Whether matched counts must come from pairs pooled over windows: they are kept at the run's τ alone."""
        return self.reading is None and (self.at != self.sums.tau or "matched" not in self.sums.stored)

    # ------------------------------------------------------------------ windows

    def texts(self) -> Array:
        """All windows."""
        return self.sums.texts[:, None, None]

    def windows(self) -> Array:
        """Windows with pairs."""
        return self.sums.windows[:, None, None]

    def not_flat(self) -> Array:
        """Windows with high pairs: not flat in the main reading."""
        return self.windows() - self.sums.stored["flat"]

    def head(self, name: str) -> Array:
        """A variable of each head by its name; of those kept by reading, this view's."""
        values = self.sums.stored[name]
        return values[:, self.place] if variable(name).dims[0] == "reading" else values

    # ------------------------------------------------------------------ attention

    def focus(self, category: str, variable: str = "attention") -> Sums:
        """Attention given to a category, and what an even spread would give it."""
        k = CATEGORIES.index(category)
        return self.sums.stored[variable][..., k], self.sums.stored["attention_even"][:, :, None, k]

    def attended(self, category: str) -> Sums:
        """High-attention tokens of a category and all of them, at θ; all tokens of the category and all tokens."""
        k, high = CATEGORIES.index(category), self.sums.stored["attended"][:, :, :, self._theta_step]
        tokens = self.sums.stored["tokens"][:, None, None]
        return high[..., k], high.sum(-1), tokens[..., k], tokens.sum(-1)

    def mask(self) -> Sums:
        """Σ level and number of pairs inside the mask of high attention, then outside, at θ in the main reading."""
        levels, pairs = (self.sums.stored[name][:, :, :, self._theta_step] for name in ("mask_sum", "mask_pairs"))
        return tuple(each[..., REGIONS.index(name)] for name in ("inside", "outside") for each in (levels, pairs))

    @property
    def _theta_step(self) -> int:
        theta = self.sums.theta if self.theta is None else self.theta
        step = round(theta * (BINS - 1))
        if not 0 < step < BINS - 1 or abs(theta * (BINS - 1) - step) > 1e-9:
            raise HeadscopeError(f"high-attention tokens at θ = {theta:g} were not kept", "use a multiple of 0.05")
        return step - 1

    # ------------------------------------------------------------------ pairs

    def pairs(self) -> Array:
        """High pairs, or top pairs, by band and relation: (S, L, H, band, relation)."""
        return self.sums.high(self.at) if self.reading is None else self.sums.stored["top_pairs"][:, self.place]

    def number(self) -> Array:
        """The number of high pairs, or of top pairs."""
        if self.reading is not None:
            return np.asarray(self.pairs().sum((-2, -1)))
        return np.asarray(self.sums.by_level[..., first_high_bin(self.at) :, :].sum((-2, -1)))

    def matched(self, comparison: str) -> Sums:
        """Matched counts a and b; where they were not kept, k1, n1, k0, n0 by stratum (the last dimension)."""
        if not self.over_windows:
            name = "matched" if self.reading is None else "top_matched"
            values = self.sums.stored[name] if self.reading is None else self.sums.stored[name][:, self.place]
            a, b = np.moveaxis(values[..., COMPARISONS.index(comparison), :], -1, 0)
            return a, b
        high, every = self.pairs(), self.sums.base[0][:, None, None]
        strata = COMPARED[comparison]
        return tuple(
            np.concatenate([counts[..., list(kinds[side])].sum(-1) for kinds in strata], axis=-1)
            for side in (0, 1)
            for counts in (high, every)
        )

    def distances(self, relations: tuple[int, ...] | None = None) -> Sums:
        """What the mean distance of the high or top pairs, over that of all, is made of; or of some relations."""
        kinds = slice(None) if relations is None else list(relations)
        number, total = (each[:, None, None][..., kinds].sum(-1) for each in self.sums.base)  # (S, 1, 1, band)
        if self.reading is not None:
            return self.pairs()[..., kinds].sum(-1), number, total
        least = first_high_bin(self.at)
        high, far = (
            each[..., least:, :][..., kinds].sum((-2, -1))
            for each in (self.sums.by_level, self.sums.stored["distance_sum"])
        )
        return far, high, total.sum(-1), number.sum(-1)

    # ------------------------------------------------------------------ order, likeness

    def order(self, contrast: str) -> Sums:
        """Wins and weight of a contrast by S; or by an attention map, where the reading names one."""
        k, stored = CONTRASTS.index(contrast), self.sums.stored
        if self.reading in self.sums.maps:
            wins = stored["attention_wins"][:, self.sums.maps.index(self.reading)]
        else:
            wins = stored["wins"][:, self.place]
        return wins[..., k], stored["contrast_weight"][..., k]

    def order_and_maps(self, contrast: str) -> Sums:
        """Wins by S, weight, and wins by each map (the last dimension)."""
        of_maps = self.sums.stored["attention_wins"][..., CONTRASTS.index(contrast)]
        return *self.order(contrast), np.moveaxis(of_maps, 1, -1)

    def correlations(self) -> Sums:
        """Σ of the correlations of S with each map (the last dimension), and the windows."""
        return np.moveaxis(self.sums.stored["attention_correlation"][:, self.place], 1, -1), self.windows()

    # ------------------------------------------------------------------ focal tokens

    def focal(self) -> Sums:
        """Windows by the number of different focal tokens of a layer's heads, and the same for the null.

        (S, L, 1, unique) each.
        """
        stored = self.sums.stored
        if self.reading is None:
            each = (stored[name][:, :, step_of(self.at)] for name in ("focal_unique", "focal_null"))
        else:
            each = (stored[name][:, self.place] for name in ("top_unique", "top_null"))
        unique, null = (values[:, :, None] for values in each)
        return unique, null

    def mixed(self) -> Sums:
        """Σ over windows of the different focal tokens of heads drawn from all layers, and the windows."""
        return self.sums.stored["top_mixed"][:, self.place, None, None], self.windows()

    def shares(self) -> Sums:
        """The focal tokens' shares at τ, and the windows that have one."""
        return self.sums.stored["focal_share"][..., step_of(self.at)], self.not_flat()
