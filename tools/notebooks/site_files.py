"""Files of the reading site that aren't pages: what it needs of MathJax, and of an icon script of 1.5 MB."""

import re
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

# What the pages load of MathJax: its scripts in one file, and the fonts; 1.6 of 24 MB.
MATHJAX = ["tex-chtml.js", "output/chtml/fonts/woff-v2/*"]
ICONS = [
    "bars",
    "magnifying-glass",
    "xmark",
    "list",
    "download",
    "expand",
    "file",
    "file-pdf",
    "angle-left",
    "angle-right",
]
ICONS += ["sun", "moon", "circle-half-stroke"]
SIDE = '<div id="pst-primary-sidebar"'
LOOK = """.fa-solid, .fas {
    display: inline-block; width: 1.1em; height: 1em; vertical-align: -.125em; background: currentColor;
    mask: var(--icon) center / contain no-repeat;
}
.fa-solid::before, .fas::before { content: none; }
"""
ICON = """.fa-{} {{ --icon: url('data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}">\
<path d="{}"/></svg>'); }}
"""


def copy_mathjax(app, error):
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    files = [] if error else [file for pattern in MATHJAX for file in package.glob(pattern)]
    for file in files:
        copy_asset(file, Path(app.outdir, "_static", "mathjax", file.relative_to(package).parent))


def draw_icons(app, error):
    """Write the used icons as styles, and leave the theme's script empty, which would draw any of 2,000."""
    if error:
        return
    theme, static = Path(find_spec("pydata_sphinx_theme").origin).parent, Path(app.outdir, "_static")
    code = (theme / "theme" / "pydata_sphinx_theme" / "static" / "scripts" / "fontawesome.js").read_text(
        encoding="utf-8"
    )
    end = code.index('"fa-solid",b)')
    solid = code[code.rindex("var b={", 0, end) : end]
    drawn = re.findall(rf'[{{,]"?({"|".join(ICONS)})"?:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"\]', solid)
    if missing := set(ICONS) - {name for name, *_ in drawn}:
        raise ValueError(f"the theme's icons must have {', '.join(sorted(missing))}: has its script changed?")
    rules = (ICON.format(*icon) for icon in drawn)
    (static / "icons.css").write_text(LOOK + "".join(rules), encoding="utf-8")
    (static / "scripts" / "fontawesome.js").write_text("// The icons are in icons.css.\n", encoding="utf-8")


def improve(app, error):
    """Where the theme has no option: name the side bar for screen readers, and load figures when they're near."""
    for page in [] if error else Path(app.outdir).rglob("*.html"):
        code = page.read_text(encoding="utf-8")
        code = code.replace(SIDE, f'{SIDE} role="complementary" aria-label="Site"')
        page.write_text(code.replace("<img ", '<img loading="lazy" '), encoding="utf-8")
