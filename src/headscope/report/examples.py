"""Texts that show a head's role, for the report: which heads, which texts, and one of them drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headscope.errors import HeadscopeError
from headscope.figures.look import SCREEN, Look
from headscope.findings.resampling import Resampling
from headscope.findings.specialists import SPECIALIST
from headscope.result.rows import row_paths
from headscope.windows.text import in_a_line, visible

if TYPE_CHECKING:
    from headscope.figures.style import Picture
    from headscope.models.model import Model
    from headscope.result.result import Result

# A role, the score of heads by which it is found, and the score of texts by which it is shown.
ROLES = (
    ("finds repetitions", "repetition_preference", "repetition_share"),
    ("keeps to the sentence", "sentence_preference", "sentence_share"),
    ("reads the ends of sentences", "stop_focus", "stop_focus"),
    ("gathers round one token", "focal_share", "focal_share"),
)
LONGEST = 600  # characters of a text that are shown
TEXTS = 3  # to a role
LOOKED_AT = 20  # texts among which the shortest is drawn


@dataclass(frozen=True, slots=True)
class Role:
    """The head that stands out most in one role, and the texts that show it best."""

    role: str
    layer: int
    head: int
    score: str
    shown_by: str
    value: float
    texts: list[dict[str, Any]]


def roles(result: Result, tau: float | None = None) -> list[Role]:
    """A head for each role, where the run kept rows per text and there is a head that stands out."""
    if row_paths(result) is None or not tells_heads_apart(result):
        return []
    table = result.specialists(tau=tau)
    roles_shown = []
    for role, score, shown_by in ROLES:
        own = table[(table["score"] == score) & (table["what"] == SPECIALIST)]
        lead = own[["out", "out_of_model"]].min(axis=1)  # beyond its layer, and beyond the model
        for place in lead[lead > 0].sort_values(ascending=False).index:
            best = own.loc[place]
            layer, head = int(best["layer"]), int(best["head"])
            shown = result.examples(layer, head, shown_by, TEXTS)
            if len(shown):
                texts = [_text(dict(row), shown_by) for _, row in shown.iterrows()]
                roles_shown.append(Role(role, layer, head, score, shown_by, float(best["value"]), texts))
                break
    return roles_shown


def tells_heads_apart(result: Result) -> bool:
    """Whether there are enough blocks of texts to tell a head from noise."""
    return Resampling(result.blocks.windows, draws=0).enough_blocks


def _text(row: Mapping[Any, Any], score: str) -> dict[str, Any]:
    text = str(row["text"])
    cut = text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"
    shown = in_a_line(" ".join(cut.split()))
    focal = row["focal_token"]
    return {
        "id": in_a_line(str(row["id"])),
        "score": float(row[score]),
        "focal_token": visible(str(focal)) if isinstance(focal, str) else "–",
        "focal_share": float(row["focal_share"]),
        "high_pairs": int(row["high_pairs"]),
        "text": shown,
    }


def one_head(result: Result, roles: list[Role], model: Model, look: Look = SCREEN) -> Picture:
    """The first role's head with a short text that shows it: its attention map and its similarity matrix."""
    if not roles:
        raise HeadscopeError("no head stands out with a text to show it", "analyse more texts, with --per-text")
    role = roles[0]
    texts = result.examples(role.layer, role.head, role.shown_by, LOOKED_AT)
    text: str = min(texts["text"], key=len)
    from headscope.figures.matrix import head_figure

    inspection = model.inspect(text, stack=result.name, **result.inspect_options)
    return head_figure(inspection, role.layer, role.head, result.settings["theta"], look=look)
