"""How strong a boundary is between the sentences of a text that is looked at, and which heads say so."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import HeadscopeError
from headscope.inspection import Inspection
from headscope.models.load import load
from headscope.models.source import EMBEDDED
from headscope.segmentation.head_weights import SHIPPED, HeadWeights, read_head_weights
from headscope.segmentation.segmenter import Segmenter
from headscope.windows import Window
from headscope.windows.text import first_visible

if TYPE_CHECKING:
    from headscope.models.model import Model

AROUND = 4_000  # characters on either side of a window that are read with it


class Boundaries:
    """The boundaries of a desk's texts, where it is known which heads of the model cut texts."""

    def __init__(self) -> None:
        self._segmenters: dict[tuple[str, str], Segmenter | None] = {}  # by model and language, made when first needed

    def of(self, inspection: Inspection, model: Model | None) -> list[dict[str, Any]]:
        """Those between the sentences that a window shows. There are none where the model's heads are not known; what
        goes wrong otherwise is told, and tried again when it is asked for again.

        `model` is the one that read the text; where it is not at hand any more, the embedded one is loaded again.
        """
        if not any(len(_sentence_changes(inspection.window, part)) for part in range(len(inspection.window.texts))):
            return []  # without asking for a model
        key = (inspection.model, inspection.choices.language)
        if key not in self._segmenters:
            self._segmenters[key] = _segmenter(inspection, model)
        segmenter = self._segmenters[key]
        return [] if segmenter is None else boundaries_of(inspection.window, segmenter)


def _segmenter(inspection: Inspection, model: Model | None) -> Segmenter | None:
    """The one that cuts such texts; None where nothing is known of the model's heads, which is nothing wrong."""
    if model is None and inspection.model == EMBEDDED:
        model = load()
    weights = None if model is None else _weights(model)
    if model is None or weights is None:
        return None
    return Segmenter(model, weights, language=inspection.choices.language)


def _weights(model: Model) -> HeadWeights | None:
    """Those of the model's heads, where it is known which of them cut texts. A model under a control is another one."""
    weights = read_head_weights(SHIPPED)
    if model.name != weights.model["name"]:
        return None
    try:
        weights.check(model)
    except HeadscopeError:
        return None
    return weights


def boundaries_of(window: Window, segmenter: Segmenter) -> list[dict[str, Any]]:
    """What the page shows of each boundary: the token before it, its sentence, strength and heads.

    What the window shows is cut together with some pages on either side: a few sentences alone do not tell what is
    usual in a text. Both window and segmenter find sentences by the same splitter; where one of them sees an end that
    the other does not, as may happen where these pages begin, nothing is shown.

    >>> import headscope
    >>> model = headscope.load()
    >>> seen = model.inspect("The violins were tuned. A cellist played. Granite is a hard rock.")
    >>> [(b["token"], b["sentence"]) for b in boundaries_of(seen.window, Segmenter(model))]
    [(7, 1), (12, 2)]
    """
    found = []
    for part, text in enumerate(window.texts):
        changes = _sentence_changes(window, part)
        if not len(changes):
            continue
        spans = window.span[window.part == part]
        begin, end = max(0, int(spans[:, 0].min()) - AROUND), int(spans[:, 1].max()) + AROUND
        cut = segmenter.cut(text[begin:end])
        starts = [begin + start for start, _ in cut.parts]
        for before, after in changes.tolist():
            at = first_visible(text, *window.span[after].tolist())
            following = bisect_right(starts, at) - 1
            if following < 1 or starts[following] < window.span[before, 1]:
                continue
            found.append(
                {
                    "token": before,
                    "sentence": int(window.sentence[before]) + 1,
                    "strength": float(cut.strength[following - 1]),
                    "chosen": following - 1 in cut.ends,
                    "heads": [[each.layer, each.head, each.share] for each in cut.why(following - 1)],
                }
            )
    return found


def _sentence_changes(window: Window, part: int) -> NDArray[np.int64]:
    """The last token of each sentence of a text and the first one of the next: (n, 2)."""
    places = np.flatnonzero((window.part == part) & (window.sentence >= 0))
    changes = np.flatnonzero(np.diff(window.sentence[places]))
    pairs: NDArray[np.int64] = np.stack([places[changes], places[changes + 1]], axis=1)
    return pairs
