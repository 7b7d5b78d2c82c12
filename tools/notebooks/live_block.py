"""An explorer of the reading site as HTML: native controls, the picture of its first state, and all its states."""

import html
import json
import re

from .live_pages import states_of


def control(each, index):
    """A control as native HTML, at one of its values."""
    name, values = html.escape(each["name"]), [html.escape(value) for value in each["values"]]
    if each["list"]:
        chosen = {index: " selected"}
        options = [f'<option value="{n}"{chosen.get(n, "")}>{value}</option>' for n, value in enumerate(values)]
        return f'<label>{name} <select autocomplete="off">{"".join(options)}</select></label>'
    room = f'min="0" max="{len(values) - 1}" value="{index}" aria-valuetext="{values[index]}"'
    return f'<label>{name} <input type="range" autocomplete="off" {room}><output>{values[index]}</output></label>'


BUTTONS = """<button type="button" class="live-play">Play</button>
<button type="button" class="live-remedy">Add a head</button>"""
BLOCK = """<div class="live {kind}" role="group" aria-label="{name}">
<div class="live-controls" hidden>{controls}</div>
<p class="live-said" role="status"></p>
{view}
<script type="application/json">{states}</script>
</div>"""


def block(codes, kind):
    """An explorer as HTML, with the picture of its first state, and what only the notebook's explorer can do."""
    found, view, rest = states_of(tuple(codes), kind)
    controls = "\n".join(map(control, found["controls"], found["start"])) + BUTTONS * found["plays"]
    name = re.sub("(?<=[a-z])(?=[A-Z])", " ", kind)
    states = json.dumps(found, ensure_ascii=False, separators=(",", ":")).replace("</", r"<\/")  # would end the script
    return BLOCK.format(kind=kind, name=name, controls=controls, view=view, states=states), rest
