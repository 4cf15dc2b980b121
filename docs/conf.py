"""Settings of the documentation site, built by ``make docs``."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "tensormend"
author = "The tensormend developers"
copyright = author  # noqa: A001
version = release = installed_version("tensormend")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "mathml",
]
exclude_patterns = ["_build"]
default_role = "py:obj"  # names in docstrings become links where they can be resolved

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages that commands write may skip a level

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"  # the types stand with the descriptions
autosummary_generate = False
numpydoc_show_class_members = False  # the pages list them
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80

html_theme = "furo"
html_title = "tensormend"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "monokai"
