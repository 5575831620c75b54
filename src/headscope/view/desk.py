"""The desk: answers whatever the page asks, wherever the page lives.

The page asks by path ("texts/1f0c…/cosine/heads/11/3"). The server passes such paths on from HTTP, the notebook widget
from messages, and the single file holds the answers to all of them beforehand.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from headscope.choices import READINGS, STACKS, described
from headscope.errors import HeadscopeError
from headscope.texts.one import example_passage
from headscope.version import __version__
from headscope.view.looks import TAU
from headscope.view.run_data import RunData
from headscope.windows.text import in_a_line

if TYPE_CHECKING:  # what texts need is imported with the first text: a run's page need not wait for torch
    from headscope.inspection import Inspection
    from headscope.models.model import Model

ALL_AT_ONCE = 256  # tokens: beyond this no more than one layer's matrices are held at a time
KEPT = 512_000_000  # bytes of inspections kept in memory
MOST_TEXTS = 64
Answer = dict[str, Any] | list[Any] | bytes


class Gone(HeadscopeError):  # noqa: N818 - it says what is the matter
    """A text that is not there, or not any more: the page sends it again."""


@dataclass
class Seen:
    """An inspected text in every reading that was asked for. Tables are made on demand, by one thread at a time."""

    inspection: Inspection  # in its main reading
    lock: Lock = field(default_factory=Lock)
    others: dict[str, Inspection] = field(default_factory=dict)

    def read_as(self, reading: str) -> Inspection:
        """The text in a reading; each is made once."""
        if reading == self.inspection.reading:
            return self.inspection
        if reading not in self.others:
            self.others[reading] = self.inspection.read_as(reading)
        return self.others[reading]

    @property
    def size(self) -> int:
        """About how many bytes it holds, the tables of one layer in each reading among them."""
        captured = self.inspection.captured
        tables = 12 * captured.heads * len(captured.queries) ** 2
        return captured.size + tables * (1 + len(self.others))


class Desk:
    """One model, the texts it has read lately, and a result: any of them may be missing."""

    def __init__(
        self,
        load: Callable[[], Model] | None = None,
        run_data: RunData | None = None,
        *,
        defaults: dict[str, Any] | None = None,
        state: dict[str, Any] | None = None,
        readings: Sequence[str] | None = None,
        address: str = "",
    ) -> None:
        self._load, self.run_data = load, run_data
        self.readings = readings  # that texts are shown in; None: every one that they have
        self.defaults, self.state = defaults or {}, state or {}
        self.address = address  # what is looked at at first, as the page writes it into its own address
        self._model: Model | None = None
        self._first: dict[str, str] | None = None  # the text that a page begins with
        self._texts: OrderedDict[str, Seen] = OrderedDict()
        self._loading, self._running, self._keeping = Lock(), Lock(), Lock()

    # ------------------------------------------------------------------ texts

    @property
    def model(self) -> Model:
        """The model, loaded when first needed."""
        if self._load is None:
            raise HeadscopeError("there is no model to read texts with", "start the viewer with --model")
        with self._loading:
            if self._model is None:
                self._model = self._load()
            return self._model

    def inspect(self, text: str, *, again: str | None = None, **options: Any) -> dict[str, Any]:
        """Read a text and keep it; returns what the page shows first.

        `again` names a text that was read already, which may be longer than one that is typed: for another window or
        stack of it.
        """
        if again is not None:
            text, *second = self._seen(again).inspection.window.texts
            options["pair"] = options.get("pair") or next(iter(second), None)
        chosen = {**self.defaults, **{name: value for name, value in options.items() if value is not None}}
        with self._running:  # the tap is of one text at a time, and so is the processor
            model = self.model
            chosen["window"] = chosen.get("window") or model.default_window
            name = text_id(text, chosen)
            if name not in self._texts:
                maps = chosen["window"] <= ALL_AT_ONCE
                self._keep(name, Seen(model.inspect(text, maps=maps, **chosen)))
        return self.text(name)

    def add(self, inspection: Inspection) -> str:
        """Keep a text that was inspected already; returns its name."""
        name = text_id("\x00".join(inspection.window.texts), inspection.choices.of_text | {"shown": inspection.shown})
        self._keep(name, Seen(inspection))
        return name

    def texts(self) -> list[Inspection]:
        """The texts in memory, the latest last."""
        return [each.inspection for each in self._texts.values()]

    @property
    def can_inspect(self) -> bool:
        """Whether there is a model to read new texts with."""
        return self._load is not None

    def part(
        self, texts: Sequence[str], *, run: bool, readings: Sequence[str], address: str, stack: str | None = None
    ) -> Desk:
        """A desk with some of the texts, or with a stack of the run: what goes into a file of its own. Nothing is read
        again."""
        run_data = self.run_of(stack) if run else None
        part = Desk(run_data=run_data, defaults=self.defaults, state=self.state, address=address)
        for name in texts:
            seen = self._seen(name)
            part._keep(name, seen)
            known = self.readings_of(seen.inspection)
            part.readings = part.readings or [each for each in known if each in readings] or known[:1]
        part._model, part._running = self._model, self._running
        return part

    def _keep(self, name: str, seen: Seen) -> None:
        with self._keeping:
            self._texts[name] = seen
            self._first = self._first or {"id": name, "text": "".join(seen.inspection.window.texts[:1])}
            while len(self._texts) > MOST_TEXTS or (
                len(self._texts) > 1 and sum(each.size for each in self._texts.values()) > KEPT
            ):
                self._texts.popitem(last=False)

    def _seen(self, name: str) -> Seen:
        with self._keeping:
            if name not in self._texts:
                raise Gone("the text is not in memory any more", "send it again")
            self._texts.move_to_end(name)
            return self._texts[name]

    # ------------------------------------------------------------------ answers

    def about(self) -> dict[str, Any]:
        """What there is to look at, and what can be asked."""
        model = self._model
        answer: dict[str, Any] = {
            "version": __version__,
            "can_inspect": self.can_inspect,
            "texts": list(self._texts),
            "first": self._first,
            "run": self.run_data is not None,
            "run_texts": self.run_data is not None and self.run_data.has_rows,
            "example": example_passage() if self.can_inspect else None,
            "defaults": self.defaults,
            "choices": [
                {name: getattr(choice, name) for name in ("name", "label", "allowed", "default", "several", "help")}
                | {"kind": choice.kind.__name__}
                for choice in described(of_text=True)
            ],
            "readings": [{"name": name, "meaning": meaning} for name, meaning in READINGS.items()],
            "state": self.state,
            "address": self.address,
        }
        if model is not None:
            answer["model"] = {
                "name": in_a_line(model.name),
                "stacks": list(model.stacks),
                "window": model.default_window,
                "longest": min(model.max_length, 1_000_000),
            }
        return answer

    def text(self, name: str) -> dict[str, Any]:
        """A text's tokens and everything else that is the same for all heads."""
        from headscope.view import arrays

        seen = self._seen(name)
        with seen.lock:
            stacks = [] if self._model is None else list(self._model.stacks)
            own = {"id": name, "stacks": stacks}  # those that the text can be read again in
            return own | arrays.header(seen.inspection, self.readings_of(seen.inspection))

    def readings_of(self, inspection: Inspection) -> list[str]:
        """The readings that a text is shown in, the one to begin with first."""
        if self.readings is not None:
            return list(self.readings)
        return [inspection.reading, *(name for name in inspection.readings if name != inspection.reading)]

    def of_pairs(self, name: str) -> bytes:
        """How the pairs of a text are related, in every reading the same."""
        from headscope.view import arrays

        seen = self._seen(name)
        with seen.lock:
            return arrays.pairs(seen.inspection)

    def of_boundaries(self, name: str) -> dict[str, Any]:
        """How strong boundaries are between the sentences of a text: the model reads each of them, in its turn."""
        seen = self._seen(name)
        with self._running:
            return {"boundaries": self._boundaries.of(seen.inspection, self._model)}

    @cached_property
    def _boundaries(self) -> Any:
        from headscope.view.boundaries import Boundaries

        return Boundaries()

    def of_marks(self, stack: str | None, layer: int, head: int, score: str, number: int) -> dict[str, Any]:
        """A text of the run with what it is an example of marked in it: the model reads it, in its turn."""
        run, model = self.run_of(stack), self.model
        with self._running:
            marked: dict[str, Any] = self._marks.of(run, model, (layer, head), score, number)
            return marked

    @cached_property
    def _marks(self) -> Any:
        from headscope.view.marks import Marks

        return Marks()

    def of_head(self, name: str, reading: str, layer: int, head: int) -> bytes:
        """A head of a text in a reading."""
        from headscope.view import arrays

        seen = self._seen(name)
        with seen.lock:
            return arrays.head(seen.read_as(reading), layer, head)

    def of_layer(self, name: str, reading: str, layer: int) -> bytes:
        """A layer's row of the atlas in a reading; where its sums are not at hand the model runs again, in its turn."""
        from headscope.view import arrays

        seen = self._seen(name)
        if self.at_hand(name, reading):
            with seen.lock:
                return arrays.layer(seen.read_as(reading), layer)
        with self._running, seen.lock:
            return arrays.layer(seen.read_as(reading), layer)

    def at_hand(self, name: str, reading: str) -> bool:
        """Whether a text can be shown in a reading without running the model."""
        from headscope.inspection.sums import has_sums

        return has_sums(self._seen(name).inspection.captured, reading)

    def of_attention(self, name: str, layer: int, head: int) -> bytes:
        """A head's attention map; where maps were not kept the model is run again, in its turn."""
        from headscope.view import arrays

        seen = self._seen(name)
        if seen.inspection.captured.weights is not None:
            with seen.lock:
                return arrays.attention(seen.inspection, layer, head)
        with self._running, seen.lock:
            return arrays.attention(seen.inspection, layer, head)

    def save_text(self, name: str, reading: str, file: Path) -> Path:
        """Write a text's whole inspection as netCDF, through a copy: matrices of all heads are not kept here."""
        return self._seen(name).inspection.read_as(reading).save(file)

    @property
    def run(self) -> RunData:
        """The result, where there is one."""
        if self.run_data is None:
            raise Gone("there is no result to show", "start the viewer with a run")
        return self.run_data

    def run_of(self, stack: str | None) -> RunData:
        """The result, seen through a stack of the model; None is the one that the viewer was started with."""
        return self.run if stack is None else self.run.of_stack(stack)

    def answer(self, path: str) -> Answer:
        """The answer to a path.

        >>> Desk().answer("about")["run"]
        False
        """
        for pattern, reply in _ROUTES:
            matched = re.fullmatch(pattern, path)
            if matched:
                return reply(self, *(int(each) if each and each.isdecimal() else each for each in matched.groups()))
        raise Gone(f"there is nothing at {path[:80]!r}", "ask for one of the page's own paths")

    def paths(self) -> Iterator[str]:
        """Every path that has an answer now: what a single file must hold."""
        yield "about"
        for name, seen in self._texts.items():
            text = f"texts/{name}"
            yield from (text, f"{text}/pairs", f"{text}/boundaries")
            for layer in seen.inspection.captured.layers:
                heads = [f"heads/{layer}/{head}" for head in range(seen.inspection.captured.heads)]
                if seen.inspection.captured.has_maps:
                    yield from (f"{text}/{head}/attention" for head in heads)
                for reading in self.readings_of(seen.inspection):
                    yield f"{text}/{reading}/layers/{layer}"
                    yield from (f"{text}/{reading}/{head}" for head in heads)
        if self.run_data is not None:
            yield from self._paths_of_run(self.run_data)

    @staticmethod
    def _paths_of_run(run_data: RunData) -> Iterator[str]:
        about = run_data.about
        run = about["path"]
        yield from ("run", f"{run}/findings", f"{run}/sensitivity")
        scores = [(score["name"], way) for score in about["quantities"] for way in score["ways"]]
        yield from (f"{run}/scores/{name}/{way}" for name, way in scores if way != TAU)
        for step in run_data.steps():  # all of one τ together: its pairs are read once
            yield from (f"{run}/scores/{name}/{step}" for name, way in scores if way == TAU)
        heads = [f"{run}/heads/{layer}/{head}" for layer in about["layers"] for head in range(about["heads"])]
        yield from heads
        if about["rows"]:
            shown_by = sorted({score["examples"] for score in about["quantities"] if score["examples"]})
            yield from (f"{head}/examples/{score}" for head in heads for score in shown_by)


def text_id(text: str, options: dict[str, Any]) -> str:
    """A name for a text and the options it was read with: the same whenever it is read again.

    >>> text_id("A cat.", {"window": 128})[:5]
    'td6d9'
    """
    written = json.dumps([text, sorted((k, v) for k, v in options.items() if v is not None)], ensure_ascii=False)
    return "t" + hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:20]


_TEXT, _NUMBER, _NAME = r"texts/(t[0-9a-f]{20})", r"(\d{1,4})", r"(\w{1,60})"
_READ = rf"{_TEXT}/({'|'.join(READINGS)})"
_RUN = rf"(?:stacks/({'|'.join(STACKS)})/)?run"
_ROUTES: list[tuple[str, Callable[..., Answer]]] = [
    ("about", Desk.about),
    (_TEXT, Desk.text),
    (f"{_TEXT}/pairs", Desk.of_pairs),
    (f"{_TEXT}/boundaries", Desk.of_boundaries),
    (f"{_READ}/layers/{_NUMBER}", Desk.of_layer),
    (f"{_READ}/heads/{_NUMBER}/{_NUMBER}", Desk.of_head),
    (f"{_TEXT}/heads/{_NUMBER}/{_NUMBER}/attention", Desk.of_attention),
    (_RUN, lambda desk, stack: desk.run_of(stack).about),
    (f"{_RUN}/findings", lambda desk, stack: desk.run_of(stack).findings()),
    (f"{_RUN}/sensitivity", lambda desk, stack: desk.run_of(stack).sensitivity()),
    (f"{_RUN}/scores/{_NAME}/([a-z]{{1,16}})", lambda desk, stack, score, way: desk.run_of(stack).scores(score, way)),
    (f"{_RUN}/scores/{_NAME}/{_NUMBER}", lambda desk, stack, score, at: desk.run_of(stack).scores(score, str(at))),
    (f"{_RUN}/heads/{_NUMBER}/{_NUMBER}", lambda desk, stack, *place: desk.run_of(stack).curves(*place)),
    (
        f"{_RUN}/heads/{_NUMBER}/{_NUMBER}/examples/{_NAME}",
        lambda desk, stack, *asked: desk.run_of(stack).examples(*asked),
    ),
    (f"{_RUN}/heads/{_NUMBER}/{_NUMBER}/examples/{_NAME}/marked/{_NUMBER}", Desk.of_marks),
]
