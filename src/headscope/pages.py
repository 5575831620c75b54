"""Web pages as files: how they are named, and written so that a page with its name is always a whole one."""

from __future__ import annotations

from pathlib import Path

from headscope.errors import HeadscopeError, writing


def page_name(out: str | Path) -> Path:
    """The path of a page that is to be written, refused where it is not named like one.

    >>> page_name("report.txt")
    Traceback (most recent call last):
    headscope.errors.HeadscopeError: 'report.txt' is not named like a web page. To put it right: end the name in .html.
    """
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise HeadscopeError(f"{str(out)!r} is not named like a web page", "end the name in .html")
    return target


def page_target(out: str | Path) -> Path:
    """The same with the folder made: before the minutes that the page's making takes."""
    target = page_name(out)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    return target


def write_page(target: Path, page: str) -> Path:
    """Write beside the target, then rename."""
    from headscope.result.merge import partial_name

    with writing(target):
        beside = partial_name(target)
        beside.write_text(page, encoding="utf-8")
        beside.replace(target)
    return target
