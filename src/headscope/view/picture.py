"""A picture of the view for places where it cannot live: a notebook that was saved, converted or put on the web.

A notebook keeps what a cell showed in several forms. Where a kernel answers, the widget is shown; everywhere else this.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from headscope.choices import BINS, READINGS
from headscope.errors import counted
from headscope.view.desk import Desk
from headscope.windows.text import in_a_line

if TYPE_CHECKING:
    from headscope.inspection import Inspection

DPI = 90
LONGEST = 600  # characters of a text
LIVE = "This is a picture. Run the cell for the live view, or write it to one file that works anywhere with {how}."


@dataclass(frozen=True, slots=True)
class Picture:
    """What a desk shows: a PNG and what to say about it."""

    title: str
    about: str
    png: str  # as a data: address
    shows: str
    words: tuple[str, ...]
    how: str

    def as_html(self) -> str:
        """The picture with its words; everything that comes from a text or a model is escaped."""
        words = "".join(f"<p>{html.escape(each)}</p>" for each in [*self.words, LIVE.format(how=self.how)])
        return (
            f'<div class="headscope-picture"><p><b>{html.escape(self.title)}</b><br>'
            f"{html.escape(in_a_line(self.about))}</p>"
            f'<img src="{self.png}" alt="{html.escape(self.shows, quote=True)}" style="max-width:100%">{words}</div>'
        )


def picture_of(desk: Desk, address: str = "") -> Picture:
    """What a desk shows; `address` is what is looked at, as the page writes it.

    >>> import headscope
    >>> desk = Desk()
    >>> name = desk.add(headscope.load().inspect("The cat saw the dog. The dog saw the cat."))
    >>> picture_of(desk, "layer=8&head=0").title
    'Layer 8, head 0, by dot'
    """
    if desk.run_data is not None:
        return _of_run(desk)
    return _of_text(desk.texts()[-1], desk.state | _looked_at(address))


def _looked_at(address: str) -> dict[str, Any]:
    """Head, reading and τ of an address; what makes no sense is left out."""
    given = {name: values[-1] for name, values in parse_qs(address).items()}
    looked: dict[str, Any] = {k: int(given[k]) for k in ("layer", "head") if given.get(k, "").isdecimal()}
    if given.get("reading") in READINGS:
        looked["reading"] = given["reading"]
    return looked | ({"tau": round(float(given["tau"]) * (BINS - 1))} if _is_share(given.get("tau", "")) else {})


def _is_share(written: str) -> bool:
    try:
        return 0 < float(written) < 1
    except ValueError:
        return False


def _of_text(inspection: Inspection, state: dict[str, Any]) -> Picture:
    if state.get("reading") in inspection.readings:
        inspection = inspection.read_as(state["reading"])
    layers = inspection.captured.layers
    layer = state["layer"] if state.get("layer") in layers else layers[-1]
    head = min(state.get("head", 0), inspection.captured.heads - 1)
    tau = state.get("tau", (BINS - 1) // 2) / (BINS - 1)
    pairs = inspection.high_pairs(layer, head, tau)
    focal = inspection.focal_token(layer, head, tau)
    told = f"{len(pairs):,} pairs are similar at τ = {tau:.2f}"
    if focal is not None:
        told += f"; the focal token is “{in_a_line(focal.token)}”, in {focal.share:.0%} of them"
    first = pairs.head(5)
    strongest = [f"{in_a_line(a)} – {in_a_line(b)}" for a, b in zip(first.token_i, first.token_j, strict=True)]
    words = [in_a_line(" ".join(text.split()))[:LONGEST] for text in inspection.window.texts]
    words.append(f"{told}. The most similar: {', '.join(strongest)}." if strongest else f"{told}.")
    return Picture(
        f"Layer {layer}, head {head}, by {inspection.reading}",
        f"{inspection.model} · {inspection.stack} · {inspection.shown}",
        _png(inspection.plot_similarity(layer, head)),
        f"context similarity matrix of layer {layer}, head {head}",
        tuple(words),
        "seen.view_html('view.html')",
    )


def _of_run(desk: Desk) -> Picture:
    from headscope.figures.atlas import atlas

    about = desk.run.about
    return Picture(
        "All heads of the run, by score",
        f"{about['model']} · {about['stack']} · {counted(about['windows'], 'window')} of {about['texts']}",
        _png(atlas(desk.run.result)),
        "every head of every layer as a square, for each score",
        (),
        "headscope view RUN --html view.html",
    )


def _png(figure: Any) -> str:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=DPI)
    return f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
