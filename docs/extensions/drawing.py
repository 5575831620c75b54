"""How the gallery finds the pictures that its scripts draw, and where it runs them."""

from __future__ import annotations

import os
from functools import cache
from tempfile import mkdtemp
from typing import Any


def pictures(block: Any, block_vars: Any, gallery_conf: Any) -> str:
    """The pictures that a script drew: headscope's figures do not go through pyplot."""
    from sphinx_gallery.scrapers import figure_rst

    from headscope.figures.style import Picture

    files = []
    for value in block_vars["example_globals"].values():
        if isinstance(value, Picture) and not getattr(value, "in_gallery", False):
            value.in_gallery = True  # type: ignore[attr-defined]
            path = next(block_vars["image_path_iterator"])
            value.savefig(path, dpi=110)
            files.append(path)
    return str(figure_rst(files, gallery_conf["src_dir"]))


@cache
def _folder() -> str:
    """The scripts share the runs that they leave here."""
    return mkdtemp(prefix="headscope-docs-")


def in_a_folder_of_its_own(gallery_conf: Any, name: Any) -> None:
    """Before each script: what it writes does not land in the repository."""
    os.chdir(_folder())
