"""The reading site, which Sphinx makes of notebooks/ and docs/. No page asks the network.

The folder that Sphinx reads is the repository's root, so that links lead as they do in the repository.
"""

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # Sphinx is to find tools.notebooks.pages

project = "Attention, step by step"
author = "The authors of Attention, step by step"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
html_title = project
html_baseurl = os.environ.get("SITE_URL", "")  # where the pages will be, with a slash at the end, if that's known
language = "en"

extensions = ["myst_nb", "tools.notebooks.pages"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "classroom/*.md", "notebooks/*.md", "notebooks/*.ipynb", "notebooks/solutions/*.ipynb"]

nb_execution_mode = "off"  # the stored outputs are what the tests compare
nb_render_markdown_format = "gfm"  # an output may hold a table
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_heading_slug_func = "tools.notebooks.pages.slug"
html_math_renderer = "drawn"

html_theme = "sphinx_book_theme"
html_theme_options = {"show_navbar_depth": 2, "show_toc_level": 2, "navbar_persistent": [], "back_to_top_button": False}
html_context = {"default_mode": "auto"}  # dark where the reader's system is
suppress_warnings = ["toc.not_included"]  # the solutions, to which their lessons link
html_static_path = ["static", "../notebooks/pictures/playground.png"]
html_css_files = ["site.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("live.js", "copy.js")]
html_favicon = "static/favicon.svg"
html_extra_path = ["front"]  # the page at the top, which leads to docs/index.html
html_use_index = False
html_show_search_summary = False  # it would fetch pages, which a browser denies to those that are read from files
html_show_copyright = False
