"""Sphinx configuration: one site over the five slices."""

import importlib.metadata

project = "lazycore"
author = "the lazycore contributors"
release = importlib.metadata.version("lazycore-sandbox")
copyright = f"2026, {author}"  # noqa: A001 - the name Sphinx reads

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "lazycore"
html_copy_source = False

autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "class"
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
napoleon_google_docstring = True
napoleon_numpy_docstring = False
# Types of the standard library and of lazily found libraries have no inventory
# here: a build needs no network.
nitpick_ignore_regex = [(r"py:.*", r".*")]
