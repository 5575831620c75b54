"""headscope view: the viewer in the browser, or as one file."""

from __future__ import annotations

import re
import shlex
import sys
import threading
import webbrowser
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.choices import first_high_bin, make_choices
from headscope.cli import show
from headscope.cli.analyze_texts import parse_layers
from headscope.cli.choices import choices_of
from headscope.cli.inspect_text import given_text
from headscope.errors import HeadscopeError
from headscope.extras import require
from headscope.files import INSPECTION, INSPECTION_FILE, disk_path, is_url, page_path, title_of
from headscope.result.schema import FILE
from headscope.texts import check_text, example_passage

if TYPE_CHECKING:
    from headscope.models.model import Model
    from headscope.view.desk import Desk

NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(?<!\.)")  # one word, as folders are called
MOST_NAMED = 3


def run_view(args: Namespace) -> None:
    """Put a text or a run on a desk, then serve it or write it."""
    for name in ("port", "host"):
        if getattr(args, name) and args.html:
            raise HeadscopeError(f"--{name} is for the server, and --html starts none", "leave out one of them")
    if not 0 <= args.port <= 65535:
        raise HeadscopeError(f"--port {args.port} is not possible", "use a number from 1 to 65535, or leave it out")
    if args.html:
        page_path(args.html)
    else:
        require("the viewer", "fastapi", "pydantic", "segno", "uvicorn")
    if args.host:
        from headscope.view.reach import checked_host

        checked_host(args.host)  # before anything is loaded
    saved = _saved(args)
    if saved is None:
        desk = _desk_of_text(args)
    elif not is_url(saved) and title_of(Path(disk_path(saved))) == INSPECTION:
        desk = _desk_of_inspection(args, Path(disk_path(saved)))
    else:
        desk = _desk_of_run(args, saved)
    if args.html:
        _write(desk, args.html)
    else:
        _serve(desk, args)


def _saved(args: Namespace) -> str | None:
    """The run or the inspection that is meant, where what was given is one."""
    if args.what is None or not args.what.strip():
        return None
    if is_url(args.what) and not re.search(r"\s", args.what):
        return _alone(args)
    path = Path(disk_path(args.what))
    try:
        there = path.exists()
    except (OSError, ValueError):  # a text may not be a possible name of a file
        there = False
    if there and not (path / FILE).exists() and title_of(path / INSPECTION_FILE) == INSPECTION:
        _alone(args)
        return str(path / INSPECTION_FILE)
    if there and (path.is_dir() or path.suffix == ".nc"):
        return _alone(args)
    if not there and (path.suffix == ".nc" or re.fullmatch(r"\S*[/\\\\]\S*", args.what)):
        raise HeadscopeError(
            f"there is no run or file {args.what!r}",
            "check the path; to look at a single word as a text, put it into a --file",
        )
    if there:
        raise HeadscopeError(f"{args.what!r} is a file", f"read the text in it with --file {args.what}")
    if args.file is None and NAME.fullmatch(args.what):
        raise HeadscopeError(
            f"{args.what!r} is no run: there is no folder or file of that name here; a single word is taken as a "
            "name, not as a text",
            f"{_runs_like(args.what)}; to look at the word as a text, end it with a full stop: headscope view "
            f"{shlex.quote(args.what + '.')}",
        )
    return None


def _runs_like(name: str) -> str:
    """Which runs could have been meant: of those in this folder or one folder deeper the most alike."""
    runs = [str(file.parent) for pattern in (f"*/{FILE}", f"*/*/{FILE}") for file in Path().glob(pattern)]
    alike = sorted(runs, key=lambda run: (-SequenceMatcher(None, name, run).ratio(), run))[:MOST_NAMED]
    return f"name a run's folder, here {' or '.join(map(shlex.quote, alike))}" if alike else "name a run's folder"


def _alone(args: Namespace) -> str:
    """What was given, where no text was given beside it."""
    if args.file is not None:
        raise HeadscopeError("both a text and a run (or a saved inspection) are given", "give one of them")
    return str(args.what)


def _desk_of_text(args: Namespace) -> Desk:
    if args.control:
        raise HeadscopeError("--control goes with a run", "name the run too, or leave it out")
    given = given_text(args.what, args.file, args.encoding)
    text = example_passage()["text"] if given is None else given
    check_text(text)  # before the seconds it takes to import torch and load a model
    choices = choices_of(args, of_text=True)
    from headscope.view import first_look
    from headscope.view.desk import Desk

    step = first_high_bin(args.tau) - 1
    looking = choices | {"stack": args.stack, "start": args.start}
    defaults = {name: value for name, value in looking.items() if value is not None}
    if args.layers:
        defaults["layers"] = parse_layers(args.layers)
    in_file = make_choices(choices).readings if args.html else None  # a file holds no more than was asked for
    desk = Desk(_loader(args), defaults=defaults, readings=in_file)
    with show.working("loading the model"):
        desk.model  # noqa: B018 - so that an error in it shows now
    desk.inspect(text)
    desk.state |= {"tau": step, "theta": args.theta} | first_look(desk.texts()[-1], args.layer, args.head)
    return desk


def _desk_of_inspection(args: Namespace, file: Path) -> Desk:
    """A text that was inspected before; no model is loaded for it, unless one is named to read others with."""
    if args.control or args.layers or args.window or args.start or args.stack:
        raise HeadscopeError(
            "--control, --layers, --window, --start and --stack do not apply to a saved inspection", "leave them out"
        )
    from headscope.inspection import Inspection
    from headscope.view import first_look
    from headscope.view.desk import Desk

    seen = Inspection.open(file)
    if args.readings:
        seen = seen.read_as(args.readings[0])
    in_file = args.readings or list(seen.choices.readings) if args.html else None
    desk = Desk(_loader(args) if args.model else None, readings=in_file)
    desk.add(seen)
    desk.state |= {"tau": first_high_bin(args.tau) - 1, "theta": args.theta} | first_look(seen, args.layer, args.head)
    return desk


def _desk_of_run(args: Namespace, run: str) -> Desk:
    from headscope.cli.show_findings import has_model, open_run
    from headscope.view.desk import Desk
    from headscope.view.run_data import RunData

    if args.layers or args.window or args.start:
        raise HeadscopeError("--layers, --window and --start apply to a text, not to a run", "leave them out")
    args.run = run
    result, controls = open_run(args)
    state: dict[str, Any] = {"page": "run"}
    if args.layer is not None:
        state |= {"runLayer": args.layer, "runHead": args.head or 0}
    load = _loader(args)
    # Texts of the run can be looked at only through the model that was analysed.

    def checked_model() -> Model:
        from headscope.report.writing import checked

        return checked(load(), result)

    reader = checked_model if has_model(result, args.model) else None
    return Desk(reader, RunData(result, controls), state=state)


def _loader(args: Namespace) -> Callable[[], Model]:
    def load() -> Model:
        import headscope

        return headscope.load(args.model, device=args.device, dtype=args.dtype, revision=args.revision)

    return load


def _write(desk: Desk, out: str) -> None:
    from headscope.view.single import write_html

    err = show.console(stderr=True)
    if err.is_terminal:
        with err.status("writing the view") as status:
            file = write_html(desk, out, tell=lambda done, of: status.update(f"writing the view: {done} of {of}"))
    else:
        file = write_html(desk, out)
    show.paragraph(f"The view is {file} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser, or send it on.")


def _serve(desk: Desk, args: Namespace) -> None:
    from headscope.view.reach import LOOPBACK
    from headscope.view.server import Server

    server = Server(desk, args.port, host=args.host or LOOPBACK)
    print(f"headscope is at {server.address}", flush=True)
    if server.is_open:
        _warn_of_network(server.address)
    else:
        print("It answers on this machine only, to those who have the address. Ctrl-C ends it.", flush=True)
    if desk.run_data is not None:
        threading.Thread(target=_prepare, args=(desk,), daemon=True).start()
    if not args.no_open:
        threading.Timer(0.5, webbrowser.open, [server.address_here]).start()
    with suppress(KeyboardInterrupt):  # the usual end
        server.run()
    print("headscope: the viewer is closed", flush=True)


def _warn_of_network(address: str) -> None:
    """What it means to listen on a network; on a terminal the address as a QR code for a phone, too."""
    show.paragraph(
        "It answers on your network, to everybody who has this address: they see what you see, and can have the model "
        "read their own texts. Nothing is encrypted, so others on the same network could read along, the address "
        "included. On a network that you do not trust leave out --host and forward the port with ssh. Ctrl-C ends it."
    )
    if sys.stdout.isatty():
        from headscope.view.reach import qr_in_terminal

        qr_in_terminal(address)
        print("For the phone beside this machine: point its camera here.")
    sys.stdout.flush()


def _prepare(desk: Desk) -> None:
    """Work out a run's findings while the browser opens; errors are printed, and come again for whoever asks."""
    try:
        desk.run.prepare()
        if desk.can_inspect:
            desk.model  # noqa: B018 - so that the first text of the run need not wait for it
    except HeadscopeError as error:
        print(f"headscope: {error}", flush=True)
