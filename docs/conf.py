"""How the documentation site is built: `make docs`, offline, with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["MPLBACKEND"] = "agg"
os.environ["COLUMNS"] = "100"  # the width that argparse wraps to
os.environ["NO_COLOR"] = "1"

from headscope.version import __version__  # noqa: E402

project, author = "headscope", "The headscope authors"
release = version = __version__
project_copyright = f"{author}, Apache-2.0"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "declared",
]
exclude_patterns = ["examples", "extensions", "gallery/**/*.ipynb"]  # the gallery's scripts can be had as notebooks

# Pages. Links are those that work on GitHub as well.
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
# Files above this folder that are pages of the site, in place of what is written there for who reads it on GitHub.
ABOVE = {"README": "index", "CHANGELOG": "changelog", "CONTRIBUTING": "contributing", "training/README": "training"}
TREE = re.compile(r"```\{toctree\}.*?```", re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#|/)[^)#\s]+|(?<= src=\")(?!\w+:)[^\"]+")
BLANK_AT_THE_END = re.compile(r"(^```python\n.*?)\n+```", re.MULTILINE | re.DOTALL)  # doctest wants a blank line there
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Reference.
default_role = "py:obj"  # `name` in a docstring is code, and a link where there is something to lead to
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "inherited-members": True}
autosummary_generate = False
python_maximum_signature_line_length = 90
add_module_names = False

# The notebook runs while the site is built; an error in it is one of the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "image_scrapers": ("drawing.pictures",),
    "reset_modules": ("drawing.in_a_folder_of_its_own",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "write_computation_times": False,  # a page that would fetch its table's code from a network
    "remove_config_comments": True,
    "subsection_order": ["examples/one_text", "examples/many_texts"],
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "thumbnail_size": (480, 320),
}
warnings.filterwarnings("ignore", category=UserWarning, module="sphinx_gallery")

html_theme = "pydata_sphinx_theme"
html_title = f"headscope {__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/icon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "headscope"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars: dict[str, list[str]] = {"index": [], "method": []}


def with_pages_above(app: Any, docname: str, source: list[str]) -> None:
    """The README and its like are pages of the site, and links to them lead there."""
    file = next((name for name, page in ABOVE.items() if page == docname), None)
    if file is None:
        source[0] = led_on(source[0], f"docs/{docname}", docname)
    else:
        above = HERE.parent / f"{file}.md"
        app.env.note_dependency(str(above))
        trees = "\n".join(TREE.findall(source[0]))
        source[0] = f"{led_on(above.read_text(encoding='utf-8'), file, docname)}\n{trees}\n"
    source[0] = BLANK_AT_THE_END.sub(r"\1\n```", source[0])


def led_on(text: str, file: str, docname: str) -> str:
    """The text of a file with its links as they are on the page of that name."""

    def link(match: re.Match[str]) -> str:
        target = os.path.normpath(f"{os.path.dirname(file)}/{match[0]}" if "/" in file else match[0])
        page = ABOVE.get(target.removesuffix(".md"))
        place = f"docs/{page}.md" if page else target
        return os.path.relpath(place, os.path.dirname(f"docs/{docname}"))

    return LINK.sub(link, text)


def with_links_to_pages(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """A docstring names a page by its file, as one finds it in the repository."""
    lines[:] = [re.sub(r"\bdocs/(\w+)\.md", r":doc:`/\1`", line) for line in lines]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", with_links_to_pages)
    app.connect("source-read", with_pages_above)
