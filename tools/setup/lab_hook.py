"""What JupyterLab's server does before it saves a notebook: it stores pictures instead of widgets.

A notebook that's opened again has no kernel yet that knows its widgets, so Lab would show them dead, each with a broken
link. What they looked like is known: Lab's setting `saveState` puts it into the notebook that is saved. So for each
explorer the picture that it showed last is stored as an SVG, and its widgets are left out. The open page isn't told,
and stays live. Give to JupyterLab, in the course's folder:

    --ContentsManager.pre_save_hook=tools.setup.lab_hook.drop_dead_views
"""

import html
import json
import re
from contextlib import suppress
from xml.dom.minidom import parseString
from xml.parsers.expat import ExpatError
from xml.sax.saxutils import quoteattr

VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
SVG = "image/svg+xml"
ADVICE = "Run this cell to move its sliders"
TOP, GAP = 28, 14  # pixels: above the first row, for the advice; between drawings
# On white, since Lab shows a stored SVG as an image, to which a dark page's colour doesn't come through.
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" \
role="img" aria-label={label} font-family="sans-serif" style="color:#000"><rect width="100%" height="100%" fill="#fff"/>\
<text y="16" font-size="13">▶ {advice}</text>{drawings}</svg>"""


def drop_dead_views(model, **_):
    """Replace widgets, in place, by what they showed last; all else stays, and so do widgets that aren't the course's.

    Explorers become a picture, progress bars a line of text. A view of a widget that the notebook doesn't hold is
    dropped if there's anything to show instead. model: what the server is about to save; if it's no notebook, or none
    of this form, it's left as it is.
    """
    metadata = part(model, "content", "metadata")
    held, ours, others = part(metadata, "widgets", STATE, "state"), False, {}
    for cell in part(model, "content", "cells", kind=list):
        for data in (part(output, "data") for output in part(cell, "outputs", kind=list)):
            if VIEW not in data:
                continue
            name = str(part(data, VIEW).get("model_id"))
            widgets = family(name, held)
            data |= instead(widgets)
            if SVG in data or is_bar(widgets) or (name not in held and len(data) > 1):
                ours |= name in held
                del data[VIEW]
            else:
                others |= widgets
    if ours and others:
        metadata["widgets"][STATE]["state"] = others
    elif ours:
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


def is_bar(widgets):
    return any(part(widgets, name).get("model_name") == "FloatProgressModel" for name in widgets)


def instead(widgets):
    """What to store for some widgets, by type: an explorer's picture or a progress bar's words; nothing for others."""
    texts = [part(widgets, name, "state").get("value") for name in widgets]
    texts = [text for text in texts if isinstance(text, str)]
    if is_bar(widgets):
        return {"text/plain": html.unescape(re.sub("<[^>]*>", "", " ".join(texts)))}
    for text in texts:
        with suppress(ExpatError, ValueError):  # not an explorer's HTML, which is XML as well
            return {SVG: picture(parseString(f"<div>{text}</div>"))}
    return {}


def picture(page):
    """The drawings in an explorer's HTML as one SVG, row below row; ValueError if there are none."""
    [drawn] = [each for each in page.getElementsByTagName("div") if each.getAttribute("role") == "img"]
    width, height, drawings = 0, TOP, ""
    for row in rows(drawn):
        x, tallest = 0, 0
        for svg in row:
            _, _, wide, tall = map(float, svg.getAttribute("viewBox").split())
            for name, value in {"x": x, "y": height, "width": wide, "height": tall, "style": ""}.items():
                svg.setAttribute(name, str(value))
            x, tallest, drawings = x + wide + GAP, max(tallest, tall), drawings + svg.toxml()
        width, height = max(width, x - GAP), height + tallest + GAP
    label = quoteattr(drawn.getAttribute("aria-label"))
    return PICTURE.format(width=width, height=height, label=label, advice=ADVICE, drawings=drawings)


def rows(element):
    """The outermost SVG elements within an element, in rows: those with the same parent are one row."""
    inside = [child for child in element.childNodes if child.nodeType == child.ELEMENT_NODE]
    row = [child for child in inside if child.tagName == "svg"]
    return [row] * bool(row) + [row for child in inside if child.tagName != "svg" for row in rows(child)]


def part(holder, *path, kind=dict):
    """What nested dictionaries hold at the end of a path; an empty one if that is missing or of another kind."""
    for name in path:
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder if isinstance(holder, kind) else kind()
