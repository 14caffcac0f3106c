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
    "sphinx.ext.intersphinx",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.mathmpl",
]
exclude_patterns = ["gallery/**/*.ipynb", "gallery/**/*.py", "gallery/**/*.md5", "sg_execution_times.rst"]
mathmpl_fontsize = 13.0
html_theme = "pydata_sphinx_theme"
html_title = "batch2online"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
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

# Inventories come over the network, so links to other projects need the variable INTERSPHINX, or Read the Docs.
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
        "dask": ("https://docs.dask.org/en/stable", None),
    }
    if {"INTERSPHINX", "READTHEDOCS"} & os.environ.keys()
    else {}
)

templates_path = ["_templates"]
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_mock_imports = ["pyspark"]  # a large package, whose Java program the documentation does not need
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "min_reported_time": 1e9,
    "show_memory": False,
    "thumbnail_size": (540, 372),
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "reference_url": {"batch2online": None},
    "doc_module": ("batch2online",),
    "backreferences_dir": "generated/backreferences",
    "plot_gallery": os.environ.get("GALLERY", "1") == "1",
}


def usage_first(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Move the examples of a docstring, which numpydoc puts last, behind its first paragraph."""
    if ".. rubric:: Examples" not in lines or "" not in lines[1:]:
        return
    start, end = lines.index(".. rubric:: Examples"), len(lines)
    headings = (".. rubric::", ".. seealso::", ":Attributes:", ":Parameters:")
    stop = next((at for at in range(start + 1, end) if lines[at].startswith(headings)), end)
    first = next((at for at in range(1, end) if lines[at - 1] and not lines[at]), start)
    if first < start:
        lines[:] = [*lines[:first], "", *lines[start:stop], "", *lines[first:start], *lines[stop:]]


def without_blank_ends(app: Any, name: str, source: list[str]) -> None:
    """Remove the blank line that ends a block of doctests: pytest needs it, readers do not."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def setup(app: Any) -> None:
    """Draw formulas as pictures: MathJax would come over the network."""
    app.add_role("math", math_role, override=True)
    app.connect("autodoc-process-docstring", usage_first, priority=900)  # after numpydoc
    app.connect("source-read", without_blank_ends)
