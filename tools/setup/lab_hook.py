"""What JupyterLab's server does before it saves a notebook: it stores pictures in place of widgets.

A notebook that's opened again has no kernel that knows its widgets, so Lab would show them dead, each with a broken
link. What they looked like is known, because Lab's setting `saveState` writes it into the notebook that is to be saved.
So each explorer is stored as the picture that it showed last, without its widgets. The open page hears nothing of this
and stays live. Give to JupyterLab, in the course's folder:

    --ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views
"""

import html
import json
import re
import textwrap
from contextlib import suppress
from xml.dom.minidom import parseString
from xml.parsers.expat import ExpatError

VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
SVG, BAR = "image/svg+xml", ["HBoxModel", "HTMLModel", "FloatProgressModel", "HTMLModel"]
ADVICE = "Run this cell to move its sliders"
GAP, LINE, LETTER = 14, 20, 8.5  # pixels: between drawings; the height of a line of the headline, a letter's width
LEAST = 480  # the picture's width, so that the headline has room
# On white, because Lab shows a stored SVG as an image, which doesn't hear of a dark page's colours.
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" width="{width}" height="{height}" \
viewBox="0 {top} {width} {height}" font-family="sans-serif" style="color:#000">\
<rect y="{top}" width="100%" height="100%" fill="#fff"/>{parts}</svg>"""
WORDS = '<text y="{}" font-size="16" font-weight="{}">{}</text>'


def drop_dead_views(model, **_):
    """Replace widgets, in place, by what they showed last: an explorer by a picture, a progress bar by its words.

    Widgets that aren't the course's stay, except that a view is dropped if the notebook doesn't hold its widget, and
    has something else to show. model: what the server is about to save; only a notebook is changed.
    """
    if model["type"] != "notebook":
        return
    metadata, cells = model["content"]["metadata"], model["content"]["cells"]
    held = metadata["widgets"][STATE]["state"] if STATE in metadata.get("widgets", {}) else {}
    outputs, others = [output for cell in cells for output in cell.get("outputs", [])], {}
    for data in [output["data"] for output in outputs if VIEW in output.get("data", {})]:
        widgets = family(data[VIEW]["model_id"], held)
        data |= shown_last(widgets)
        if (SVG in data and is_explorer(widgets)) or is_bar(widgets) or (len(data) > 1 and not widgets):
            del data[VIEW]
        else:
            others |= widgets
    if held and others:
        metadata["widgets"][STATE]["state"] = others
    elif held:
        del metadata["widgets"]


def family(name, held):
    """The widget of this name and all that it's made of, by name and in order; empty if it isn't held."""
    found, waiting = {}, [name]
    while waiting:
        name = waiting.pop(0)
        if name in held and name not in found:
            found[name] = held[name]
            waiting = re.findall(r"IPY_MODEL_(\w+)", json.dumps(held[name])) + waiting
    return found


def is_explorer(widgets):
    return any("attention-explorer" in widget["state"].get("_dom_classes", []) for widget in widgets.values())


def is_bar(widgets):
    """Whether it's a progress bar of tqdm's: a bar between two texts, and nothing else."""
    kinds = [widget["model_name"] for widget in widgets.values()]
    return [kind for kind in kinds if not kind.endswith(("LayoutModel", "StyleModel"))] == BAR


def shown_last(widgets):
    """What to store for some widgets, by type; nothing if that can't be known."""
    values = [widget["state"].get("value") for widget in widgets.values()]
    texts = [value for value in values if isinstance(value, str)]
    if is_bar(widgets):
        return {"text/plain": words_of(" ".join(texts))}
    for text in texts if is_explorer(widgets) else []:
        with suppress(ExpatError, ValueError):  # of an explorer's texts, one is its picture, whose HTML is XML as well
            return {SVG: picture(parseString(f"<div>{text}</div>").getElementsByTagName("div"))}
    return {}


def picture(boxes):
    """An explorer's headline and drawings as one SVG; ValueError if there are none in these boxes."""
    drawn = [box for box in boxes if box.getAttribute("role") == "img"]
    said = " ".join(words_of(box.toxml()) for box in boxes if box.getAttribute("class") == "attention-headline")
    drawings, width, height = placed([row for box in drawn for row in rows(box)])
    if not drawings:
        raise ValueError("there's no drawing")
    lines = [("normal", ADVICE), *(("bold", line) for line in textwrap.wrap(said, int(width / LETTER)))]
    top = LINE * len(lines) + GAP  # above the drawings, which begin at 0
    words = [WORDS.format(LINE * n + 16 - top, bold, html.escape(line)) for n, (bold, line) in enumerate(lines)]
    sizes = {"top": -top, "width": round(width), "height": round(height + top)}
    label = html.escape(drawn[0].getAttribute("aria-label"))
    return PICTURE.format(label=label, parts="".join(words + [svg.toxml() for svg in drawings]), **sizes)


def placed(rows):
    """All SVG elements of some rows, with each row below the one before, and the width and height of them all."""
    drawings, width, height = [], LEAST, 0
    for row in rows:
        x, y = 0, height
        for svg in row:
            wide, tall = (float(svg.getAttribute(side)) for side in ("width", "height"))
            svg.setAttribute("x", str(x))
            svg.setAttribute("y", str(y))
            x += wide + GAP
            width, height = max(width, x), max(height, y + tall + GAP)
        drawings += row
    return drawings, width, height


def rows(element):
    """The outermost SVG elements within an element, in rows: those with the same parent are one row."""
    inside = [child for child in element.childNodes if child.nodeType == child.ELEMENT_NODE]
    row = [child for child in inside if child.tagName == "svg"]
    return [row] * bool(row) + [row for child in inside if child.tagName != "svg" for row in rows(child)]


def words_of(markup):
    return html.unescape(re.sub("<[^>]*>", "", markup))
