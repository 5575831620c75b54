"""The viewer in a notebook: JupyterLab, VS Code, Colab, marimo, through anywidget."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from headscope.errors import HeadscopeError
from headscope.view.desk import Desk, Gone
from headscope.view.page import module
from headscope.view.picture import picture_of
from headscope.view.questions import checked_question


class Viewer(anywidget.AnyWidget):
    """A cell that shows the viewer. The page asks by messages; matrices go over as they are, in binary."""

    _esm = module()
    state = traitlets.Unicode("").tag(sync=True)
    can_inspect = traitlets.Bool(False).tag(sync=True)
    picture = traitlets.Unicode("").tag(sync=True)

    def __init__(self, desk: Desk, state: str = "") -> None:
        super().__init__(state=state, can_inspect=desk.can_inspect)
        self._desk = desk
        self.on_msg(self._on_question)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget; and a picture of it, which is shown where no kernel answers."""
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        picture = picture_of(self._desk, self.state)
        self.picture = picture.png  # the page shows it until the kernel answers
        return {**data, "text/html": picture.as_html()}, metadata

    def _on_question(self, _: Any, question: Any, __: Any) -> None:
        if not isinstance(question, dict) or not isinstance(question.get("number"), int):
            return
        number = question["number"]
        try:
            if "inspect" in question:
                options = checked_question(question["inspect"])
                answer: Any = self._desk.inspect(options.pop("text", None) or "", **options)
            else:
                answer = self._desk.answer(str(question.get("path", "")))
        except HeadscopeError as error:  # the user's; anything else is a defect, and goes into the log
            self.send({"number": number, "error": str(error), "status": 404 if isinstance(error, Gone) else 422})
            return
        except BaseException as error:  # an interrupt, too: the page would wait for ever
            self.send({"number": number, "error": f"{type(error).__name__}: {error}", "status": 500})
            raise  # into the notebook's log
        if isinstance(answer, bytes):
            self.send({"number": number, "binary": True}, buffers=[answer])
        else:
            self.send({"number": number, "binary": False, "value": answer})
