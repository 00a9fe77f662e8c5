"""The site: ``make docs`` builds it into ``out/site``, with warnings as errors."""

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from sphinx_gallery.sorting import ExplicitOrder

import gbce
import gbce.plots

project, author, version = "gbce", "The gbce developers", gbce.__version__
release = version
copyright = "The gbce developers, MIT licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["img", "results", "api/backreferences", "sg_execution_times.rst", "**/sg_execution_times.rst"]
suppress_warnings = ["config.cache"]
nitpicky = False

# Markdown pages: headings are anchors, as on a forge
myst_heading_anchors = 4
myst_links_external_new_tab = True

# one page per public object, from its docstring
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
templates_path = ["templates"]

# the picture on the page of a plot: that of the gallery, or of the guide that shows the plot
PICTURES = {f"plot_{path.stem}": f"gallery/{path.name}" for path in (ROOT / "docs" / "img" / "gallery").glob("*.png")}
PICTURES |= {"plot_actions": "group_actions.png", "plot_allocation": "allocation.png", "plot_plan": "plan.png"}
autosummary_context = {"pictures": PICTURES}

# the tutorials in examples/ are run by the build
TUTORIALS = ["loan_officer.py", "house_prices.py", "several_models.py", "fairness.py", "city_budget.py"]
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["tutorials"],
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"(demo|loans)\.py$",
    "backreferences_dir": "api/backreferences",
    "doc_module": ("gbce",),
    "within_subsection_order": ExplicitOrder(TUTORIALS),
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib|gbce\.(Explanation|explanation)",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib",),
}

html_theme = "pydata_sphinx_theme"
html_title = "gbce"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "gbce"},
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": False,
}
html_sidebars: dict[str, list[str]] = {"index": [], "install": [], "quickstart": [], "gallery": []}

# `sphinx-build -b linkcheck docs out/links` asks the network; not part of `make docs`
linkcheck_anchors = False
linkcheck_ignore = [r"https://models\.example\.org.*"]

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def group_names() -> dict[str, list[str]]:
    """Return the public names by the heading under which ``reference.md`` has them."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    groups: dict[str, list[str]] = {match[1]: [] for match in HEADING.finditer(text)}
    places = {}
    for name in gbce.__all__:
        found = re.search(rf"^\| `{name}\b", text, re.MULTILINE) or re.search(rf"`{name}\b", text)
        if found is None:
            raise ValueError(f"docs/reference.md has no line for {name}")
        places[name] = found.start()
    for name in sorted(places, key=places.__getitem__):
        groups[[match[1] for match in HEADING.finditer(text, 0, places[name])][-1]].append(name)
    groups["Plots"] = [f"plots.{name}" for name in gbce.plots.__all__ if name.startswith("plot_")]
    return {heading: names for heading, names in groups.items() if names}


def write_api_index() -> None:
    """Write ``docs/api/index.rst``, which makes a page for every public name."""
    lines = ["API", "===", "", "One page per public name, from its docstring; :doc:`in one table </reference>`.", ""]
    lines += [".. toctree::", "   :hidden:", "", "   /reference", ""]
    for heading, names in group_names().items():
        lines += [heading, "-" * len(heading), "", ".. autosummary::", "   :toctree: .", "   :nosignatures:", ""]
        lines += [*(f"   gbce.{name}" for name in names), ""]
    index, text = ROOT / "docs" / "api" / "index.rst", "\n".join(lines)
    index.parent.mkdir(exist_ok=True)
    if not index.exists() or index.read_text(encoding="utf-8") != text:
        index.write_text(text, encoding="utf-8")


write_api_index()
