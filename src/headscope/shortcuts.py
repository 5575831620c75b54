"""Methods that reach upward: `model.inspect`, `inspection.show`, `result.findings` and their like.

Rooms know only what stands before them (docs/architecture.md); people expect these methods all the same. They stand
here together, each a line or two that hands over to a later room, and are the one exception that the import contract
makes. What a method does is found in the function that it calls. `self` is typed as Any, because the class it will be
a part of stands in a room of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from headscope.choices import TextChoices, make_choices

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from headscope.figures.style import Picture
    from headscope.findings import Findings
    from headscope.inspection import Inspection
    from headscope.look import LookOptions
    from headscope.result.result import Result


class ModelShortcuts:
    """What a model is asked to do."""

    @overload
    def inspect(
        self: Any,
        text: str | Sequence[int],
        pair: str | None = None,
        *,
        stack: str | None = None,
        start: int = 0,
        layers: Collection[int] | None = None,
        maps: bool = True,
        **choices: Unpack[TextChoices],
    ) -> Inspection: ...

    @overload
    def inspect(
        self: Any,
        text: list[str] | tuple[str, ...] | list[list[int]],
        pair: list[str] | None = None,
        *,
        stack: str | None = None,
        start: int = 0,
        layers: Collection[int] | None = None,
        maps: bool = True,
        **choices: Unpack[TextChoices],
    ) -> list[Inspection]: ...

    def inspect(
        self: Any,
        text: Any,
        pair: Any = None,
        *,
        stack: str | None = None,
        start: int = 0,
        layers: Collection[int] | None = None,
        maps: bool = True,
        **choices: Unpack[TextChoices],
    ) -> Inspection | list[Inspection]:
        """Run one text, or a pair of texts, or given token ids, and keep what every head made of it.

        A list of texts (or of lists of ids) gives a list, each read by itself; for many texts there is `analyze`.
        A text longer than `window` tokens (128 unless said otherwise, or the model's longest where that is shorter) is
        shown through a window that `start` (in tokens of the text) moves. `stack` picks the encoder, decoder or
        cross-attention of a model with several. For long windows, `layers` keeps only some layers, and `maps=False`
        no attention maps: they are made again, a layer at a time, when asked for. The other options are the method's
        choices: `window`, `readings` of S, some of "dot", "cosine", "centred" and "values" (what is returned is in the
        first of them, and `read_as` gives the others), `scale` of levels "max" or "rank", what makes a pair
        `repeated`, "token" or "word", whether `special` tokens take part, and the `language` for splitting sentences.

        >>> import headscope
        >>> seen = headscope.load().inspect("The cat saw the dog. The dog saw the cat.")
        >>> seen
        Inspection of tokens 1 to 12 of 12 with headscope/bert12: encoder, 12 layers × 12 heads, read by dot
        >>> dict(seen.similarity.sizes)
        {'layer': 12, 'head': 12, 'i': 14, 'j': 14}
        """
        from headscope.inspection.reading import inspect, inspect_each, is_list

        made = make_choices(choices, self.default_window)
        reader = inspect_each if is_list(text) else inspect
        return reader(self, text, pair, made, stack=stack, start=start, layers=layers, maps=maps)


class HeadWeightsShortcuts:
    """How the weights of heads are looked at."""

    def plot(self: Any, **look: Unpack[LookOptions]) -> Picture:
        """Every head of the model as a square, the darker the more it counts where texts are cut."""
        from headscope.figures.segment_heads import segment_heads_figure
        from headscope.look import Look

        return segment_heads_figure(self, look=Look(**look))


class InspectionShortcuts:
    """How an inspection is looked at."""

    def show(
        self: Any,
        layer: int | None = None,
        head: int | None = None,
        *,
        tau: float = 0.5,
    ) -> Any:
        """Look at it in a notebook: text, matrices and all heads, linked. Needs no network."""
        from headscope.view import show_inspection

        return show_inspection(self, layer, head, tau)

    def view_html(
        self: Any,
        out: str | Path,
        layer: int | None = None,
        head: int | None = None,
        *,
        readings: str | Sequence[str] | None = None,
    ) -> Path:
        """Write the same view as one HTML file that works from disk and asks nobody for anything.

        The file holds the readings that the text was inspected in, or the `readings` named here; each takes its room.
        """
        from headscope.view import save_inspection

        return save_inspection(self, out, layer, head, readings)

    @overload
    def plot_similarity(
        self, layer: int, head: int, *, theta: float = 0.3, ax: None = None, **look: Unpack[LookOptions]
    ) -> Picture: ...
    @overload
    def plot_similarity(
        self, layer: int, head: int, *, theta: float = 0.3, ax: Axes, **look: Unpack[LookOptions]
    ) -> Axes: ...
    def plot_similarity(
        self: Any, layer: int, head: int, *, theta: float = 0.3, ax: Axes | None = None, **look: Unpack[LookOptions]
    ) -> Picture | Axes:
        """S of one head with tokens on the axes, sentence boundaries and the high-attention tokens marked.

        Figures of one text and of a run are asked to look in the same words, those of `headscope.look.Look`:
        `width` ("column", "page" or inches), `font`, `font_size`, `title`, `caption`, `letters`, `dpi`. `ax` draws
        into axes of yours instead, in your own fonts, and returns them.

        >>> import headscope
        >>> seen = headscope.load().inspect("The cat saw the dog. The dog saw the cat.")
        >>> figure = seen.plot_similarity(8, 0, width="column", title=False, letters="b")
        >>> float(figure.get_figwidth())
        3.5
        """
        from headscope.figures.matrix import similarity_figure
        from headscope.look import Look

        return similarity_figure(self, layer, head, theta, look=Look(**look), ax=ax)

    @overload
    def plot_attention(
        self, layer: int, head: int, *, theta: float = 0.3, ax: None = None, **look: Unpack[LookOptions]
    ) -> Picture: ...
    @overload
    def plot_attention(
        self, layer: int, head: int, *, theta: float = 0.3, ax: Axes, **look: Unpack[LookOptions]
    ) -> Axes: ...
    def plot_attention(
        self: Any, layer: int, head: int, *, theta: float = 0.3, ax: Axes | None = None, **look: Unpack[LookOptions]
    ) -> Picture | Axes:
        """A of one head with tokens on the axes, and the attention each token receives; options as above."""
        from headscope.figures.matrix import attention_figure
        from headscope.look import Look

        return attention_figure(self, layer, head, theta, look=Look(**look), ax=ax)

    def plot_head(self: Any, layer: int, head: int, *, theta: float = 0.3, **look: Unpack[LookOptions]) -> Picture:
        """Both of them: beside each other from 6 inches on, token beside token; else the similarity matrix below."""
        from headscope.figures.matrix import head_figure
        from headscope.look import Look

        return head_figure(self, layer, head, theta, look=Look(**look))

    @overload
    def plot_grid(self, *, ax: None = None, **look: Unpack[LookOptions]) -> Picture: ...
    @overload
    def plot_grid(self, *, ax: Axes, **look: Unpack[LookOptions]) -> Axes: ...
    def plot_grid(self: Any, *, ax: Axes | None = None, **look: Unpack[LookOptions]) -> Picture | Axes:
        """S of every head of every layer as small multiples; options as above."""
        from headscope.figures.grid import grid_figure
        from headscope.look import Look

        return grid_figure(self, look=Look(**look), ax=ax)


class ResultShortcuts:
    """What a result is asked for: numbers with intervals, verdicts, figures."""

    def quantity(
        self: Any,
        name: str,
        *,
        by: str = "layer",
        tau: float | None = None,
        theta: float | None = None,
        reading: str | None = None,
        draws: int = 1000,
        seed: int = 0,
    ) -> xr.Dataset:
        """A quantity of docs/method.md by "head", "layer", "third" of the depth or for the "model", with intervals.

        Without a `reading` it is the paper's: high pairs at τ in the main reading. With one it is from the top pairs of
        that reading, or by its order where no threshold is needed. `headscope.findings.QUANTITIES` names them all.
        """
        from headscope.findings.estimates import quantity

        return quantity(_numbers(self, tau, theta, draws, seed), name, by, reading)

    def by_readings(
        self: Any,
        name: str,
        *,
        by: str = "layer",
        tau: float | None = None,
        draws: int = 1000,
        seed: int = 0,
    ) -> xr.Dataset:
        """The same in every way that it can be read, with the leading dimension `way`."""
        from headscope.findings.estimates import by_readings

        return by_readings(_numbers(self, tau, None, draws, seed), name, by)

    def distance_distribution(
        self: Any,
        *,
        by: str = "layer",
        tau: float | None = None,
        reading: str | None = None,
        draws: int = 1000,
        seed: int = 0,
    ) -> xr.Dataset:
        """The share of high pairs in each band of distance, with intervals, and beside it that of all (`base`)."""
        from headscope.findings.estimates import distances

        return distances(_numbers(self, tau, None, draws, seed), by, reading)

    def against_attention(
        self: Any, *, controls: Sequence[Result] = (), draws: int = 1000, seed: int = 0
    ) -> xr.Dataset:
        """How well S and attention tell related pairs from unrelated ones, by layer."""
        from headscope.findings.against_attention import against_attention

        return against_attention(self, controls=controls, draws=draws, seed=seed)

    def findings(
        self: Any,
        *,
        tau: float | None = None,
        controls: Sequence[Result] = (),
        draws: int = 1000,
        seed: int = 0,
    ) -> Findings:
        """Every claim of the paper with its interval and verdict; `controls` are control runs to compare with."""
        from headscope.findings import findings

        return findings(self, tau=tau, controls=controls, draws=draws, seed=seed)

    def sensitivity(self: Any, *, draws: int = 1000, seed: int = 0) -> xr.Dataset:
        """Every claim's statistic over the threshold it depends on, from 0.1 to 0.9."""
        from headscope.findings.sensitivity import sensitivity

        return sensitivity(self, draws=draws, seed=seed)

    def stability(self: Any, *, tau: float | None = None) -> pd.DataFrame:
        """How well disjoint sets of texts agree on the order of heads, against their size."""
        from headscope.findings.stability import stability

        return stability(self, tau=tau)

    def group_agreement(self: Any, *, tau: float | None = None) -> pd.DataFrame:
        """How well groups of texts agree on the order of heads."""
        from headscope.findings.stability import by_groups

        return by_groups(self, tau=tau)

    def specialists(self: Any, *, tau: float | None = None, controls: Sequence[Result] = ()) -> pd.DataFrame:
        """Which heads stand out from the typical one on all texts alike, which do not, and of which it is unclear."""
        from headscope.findings.specialists import specialists

        key = ("specialists", self.tau(tau), *(str(each.file) for each in controls))
        if key not in self.kept:  # a report asks three times
            self.kept[key] = specialists(self, tau=tau, controls=controls)
        table: pd.DataFrame = self.kept[key]
        return table.copy()

    @overload
    def figure(self, name: str, *, ax: None = None, **options: Any) -> Picture: ...
    @overload
    def figure(self, name: str, *, ax: Axes, **options: Any) -> Axes: ...
    def figure(self: Any, name: str, *, ax: Axes | None = None, **options: Any) -> Picture | Axes:
        """Draw a figure by its name (`headscope.figures.catalog.FIGURES`); it shows itself in a notebook.

        Besides `tau` and `controls`, where a figure takes them, the options are those of `headscope.look.Look`:
        `width` ("column", "page" or inches), `font`, `font_size`, `title`, `caption`, `letters`, `dpi`. `scores` picks
        panels of "trajectory" and "atlas" by name. `ax` draws a figure that has one panel ("specialists", "stability")
        into axes of yours, and returns them.
        """
        from headscope.figures.catalog import draw, draw_into

        return draw(self, name, **options) if ax is None else draw_into(self, name, ax, **options)

    def show(self: Any, *, controls: Sequence[Result] = ()) -> Any:
        """Look at it in a notebook: findings at every threshold, the atlas of heads, curves and texts of each."""
        from headscope.view import show_result

        return show_result(self, controls)


def _numbers(result: Any, tau: float | None, theta: float | None, draws: int, seed: int) -> Any:
    from headscope.findings.numbers import Numbers
    from headscope.findings.resampling import Resampling

    return Numbers(result.blocks, Resampling(result.blocks.windows, draws=draws, seed=seed), result.tau(tau), theta)
