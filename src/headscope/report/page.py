"""Filling a template: what comes from texts and models is escaped, and a name that is not given is an error."""

from __future__ import annotations

from typing import Any


def filled(template: str, **values: Any) -> str:
    """A page of this folder with its values."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headscope.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**values)
