"""How `make docs` builds the documentation: nothing is fetched, and no page asks for anything outside."""

import os
import sys
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

from guides_page import WITH_A_PLACE

from isoloss import __version__

project = "isoloss"
author = copyright = "the isoloss authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "guides_page",
    "mathml",
    "notebook_page",
    "plain_docstrings",
    "reference_pages",
]
exclude_patterns = ["extensions", "static"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True, "member-order": "bysource", "ignore-module-all": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
default_role = "py:obj"
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
suppress_warnings = ["config.cache"]

html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False

html_theme = "pydata_sphinx_theme"
html_title = "isoloss"
html_sidebars: dict[str, list[str]] = {page: [] for page in WITH_A_PLACE}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 4,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
    "navigation_depth": 3,
}
