"""What the theme has no option for: fewer bytes for icons and scripts, and a name for the side bar."""

import re
from importlib.util import find_spec
from pathlib import Path

ICONS = (
    "bars magnifying-glass xmark list download expand file file-pdf angle-left angle-right sun moon circle-half-stroke"
)
SEARCH = r'<script src="[^"]*(searchtools|language_data|searchindex)\.js[^"]*"></script>'
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


def draw_icons(app, error):
    """Write the used icons as styles, and leave the theme's script empty, which would draw any of 2,000."""
    if error:
        return
    theme, static = Path(find_spec("pydata_sphinx_theme").origin).parent, Path(app.outdir, "_static")
    script = theme / "theme" / "pydata_sphinx_theme" / "static" / "scripts" / "fontawesome.js"
    code = script.read_text(encoding="utf-8")
    end = code.index('"fa-solid",b)')
    solid = code[code.rindex("var b={", 0, end) : end]
    drawn = re.findall(rf'[{{,]"?({ICONS.replace(" ", "|")})"?:\[(\d+),(\d+),\[[^\]]*\],"\w+","([^"]+)"\]', solid)
    if missing := set(ICONS.split()) - {name for name, *_ in drawn}:
        raise ValueError(f"the theme's icons must have {', '.join(sorted(missing))}: has its script changed?")
    rules = (ICON.format(*icon) for icon in drawn)
    (static / "icons.css").write_text(LOOK + "".join(rules), encoding="utf-8")
    (static / "scripts" / "fontawesome.js").write_text("// The icons are in icons.css.\n", encoding="utf-8")


def improve(app, error):
    """Name the side bar for screen readers, load figures when they're near, and what searches where one searches."""
    for page in [] if error else Path(app.outdir).rglob("*.html"):
        code = page.read_text(encoding="utf-8")
        code = code.replace(SIDE, f'{SIDE} role="complementary" aria-label="Site"')
        code = code.replace("<img ", '<img loading="lazy" ')
        if page.name != "search.html":
            code = re.sub(SEARCH, "", code)
        page.write_text(code, encoding="utf-8")
