"""Settings of Sphinx: `make docs` builds the pages without network; a warning is an error."""

from __future__ import annotations

import os
from typing import Any

from matplotlib.sphinxext.mathmpl import math_role

import batch2online

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "batch2online"
author = "The batch2online developers"
project_copyright = "the batch2online developers"
version = release = batch2online.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.mathmpl",
]
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5", "sg_execution_times.rst"]
mathmpl_fontsize = 13.0
html_theme = "pydata_sphinx_theme"
html_title = "batch2online"
html_show_sourcelink = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}

myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # of the gallery's settings, which hold a class

templates_path = ["_templates"]
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1e9,
    "show_memory": False,
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "plot_gallery": os.environ.get("GALLERY", "1") == "1",
}


def setup(app: Any) -> None:
    """Draw formulas as pictures: MathJax would come over the network."""
    app.add_role("math", math_role, override=True)
