"""The explorers as the reading site shows them: native controls, the picture of the first state, and all states.

The states are computed here and shown by docs/static/live.js.
"""

import base64
import html
import io
import itertools
import json
import re
from functools import cache

from PIL import Image

from attention_course.explorers.playground.trials import TRIALS, trial_of

from . import trees
from .run_cell import shown_by

PLAYGROUND = ("from attention_course.explorers import Playground\nPlayground()",)
LISTED = 6  # options at most, if they have names but no order: else a slider has them
LISTS = ("Dropdown", "ToggleButtons", "Checkbox", "NoneType")
NOTEBOOKS_OWN = ' (data-touch|data-drag|data-write|xmlns)="[^"]*"'  # what the site's page needs none of
LARGE_IMAGE = r"data:image/png;base64,([^\"]{20000,})"
EVERY = slice(None)  # all values of a control
STEPS = [*range(21), *range(22, 62, 2), *range(65, 105, 5)]  # of the playground: fewer where little changes
RUNS = {f"{number}: {trial.name}": trial.controls for number, trial in TRIALS.items()}
RUNS |= {
    "steps too small": {"num_heads": 1, "learning_rate": 0.0001},
    "steps too large": {"num_heads": 1, "learning_rate": 0.1},
    "one question, d_out 1": {"task": "one question", "d_out": 1},
}
RESCUES = {
    "none": {"factor": 1, "window": 256},
    "window of 32": {"factor": 1, "window": 32},
    **{f"{rule}, factor 4": {"rule": rule, "factor": 4, "window": 256} for rule in ("linear", "NTK-aware", "Llama 3")},
}
MADE = {
    "hand-made": {"weights": "hand-made"},
    "trained, d_out 8": {"weights": "trained", "d_out": 8},
}
# By explorer: its controls on the site, and the values that each offers, as a list or a slice of all its values. In a
# dictionary, an option's name leads to the values of several controls. Controls are moved in this order.
GRIDS = {
    "Playground": {"trial": RUNS, "step": {str(step): {"step": step} for step in STEPS}},
    "ScoresExplorer": {"query": EVERY, "temperature": EVERY},
    "QKVExplorer": {"made": EVERY},
    "ScalingExplorer": {"d_k": [1, 2, 4, 8, 16, 32, 64], "scaling": EVERY},
    "MaskExplorer": {"mask": EVERY, "place": [0, 1, 2, 3]},
    "DropoutExplorer": {"p": EVERY, "step": [0, 10, *range(20, 301, 20)]},
    "KeyWidthExplorer": {"d_out": EVERY, "step": EVERY, "asked": [0, 1]},
    "WrapperExplorer": {"num_heads": EVERY, "d_out": EVERY, "dropout": [0.0, 0.2], "example": [1, 2]},
    "SplitExplorer": {
        "weights": MADE,
        "num_heads": [1, 2, 3, 4, 6, 8],
        "dropout": [0.0, 0.5],
        "cut": EVERY,
    },
    "LearningExplorer": {"example": [1, 2], "step": EVERY},
    "CostExplorer": {"num_tokens": EVERY, "num_heads": [6, 12, 48], "width": [768, 4096], "bytes": [4, 1]},
    "CacheExplorer": {"num_tokens": EVERY, "num_kv_heads": [1, 8, 32], "window": EVERY, "bytes": [2, 1]},
    "LayerExplorer": {"d_out": [2, 4, 8], "dropout": [0.0, 0.5]},  # those that the class in the cell has
    "TextExplorer": {"back": EVERY},
    "LengthExplorer": {"length": [32, 64, 128, 256], "rescue": RESCUES, "pair": ["all", "0", "2"]},
    "ModelsExplorer": {"model": EVERY, "num_tokens": slice(1, None, 2), "kind": EVERY},
    "MachinesExplorer": {"split": EVERY, "processes": EVERY, "num_tokens": [2**13, 2**20], "num_kv_heads": [8, 128]},
    "SuspectsExplorer": {"suspect": EVERY, "training": EVERY, "head": EVERY},
    "ReadingExplorer": {"ablate": ["none", "induction"], "layer": [2, 10, 14, 16, 17, 18, 23], "head": [*range(9)]},
}


def settings(name, values, controls):
    """What a control of the site offers: by label, the values of the explorer's controls; nothing if it has none."""
    if isinstance(values, dict) or name not in controls:
        return values if isinstance(values, dict) else {}
    checkbox = [("no", False), ("yes", True)] if isinstance(controls[name].value, bool) else []
    options = getattr(controls[name], "_options_full", checkbox)
    labels = {value: str(label) for label, value in options}
    chosen = [*labels][values] if isinstance(values, slice) else values
    return {labels.get(value, str(value)): {name: value} for value in chosen}  # some it has in other states only


def lighter(image):
    """An address that holds a PNG of many pixels as one that holds a WebP with 15 steps of opacity."""
    picture = Image.open(io.BytesIO(base64.b64decode(image[1]))).convert("RGBA")
    picture.putalpha(picture.getchannel("A").point(lambda alpha: round(alpha / 17) * 17))
    picture.save(file := io.BytesIO(), "WEBP", lossless=True, method=6)
    return f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}"


class Live:
    """An explorer and the grid of its states, which has the settings of each of the site's controls."""

    def __init__(self, codes, kind):
        import torch  # it takes seconds, which a page without an explorer needn't wait

        torch.set_num_threads(1)
        self.explorer = shown_by(codes)
        self.controls, self.first, self.trains = self.explorer.controls, self.explorer.values, kind == "Playground"
        if self.trains:
            self.explorer.results = None  # a page shows what its reader has seen, not what was computed before
            self.explorer.restart()
        grid = {name: settings(name, values, self.controls) for name, values in GRIDS[kind].items()}
        self.grid = {name: offered for name, offered in grid.items() if len(offered) > 1}

    @property
    def start(self):
        """The place of the first state in the grid; of a playground, the end of the trial that learns."""
        if self.trains:
            return [1, len(STEPS) - 1]
        fits = [[self.first.items() >= each.items() for each in offered.values()] for offered in self.grid.values()]
        return [found.index(True) if True in found else 0 for found in fits]

    def move(self, place):
        """Bring the explorer to a place of the grid, which has one index per control."""
        chosen = [[*offered.values()][index] for offered, index in zip(self.grid.values(), place, strict=True)]
        wanted = self.first | {name: value for values in chosen for name, value in values.items()}
        if not self.trains:
            self.explorer.update(**wanted)
            return
        step = wanted.pop("step")
        if self.explorer.values != wanted or self.explorer.arrays.step > step:
            self.explorer.set(**wanted)
            self.explorer.tabs.value = trial_of(self.first, wanted)
        if more := step - self.explorer.arrays.step:
            self.explorer.run(more)

    def page(self, place):
        """What the explorer shows at a place of the grid: HTML, without sentences about controls that are absent."""
        self.move(place)
        absent = tuple(f"{name} " for name in self.controls if name not in self.grid)
        said = re.split(r"(?<=\.) ", re.sub("<[^>]*>", "", self.explorer.message))
        note = " ".join(sentence for sentence in said if not sentence.startswith(absent))
        shown = re.sub(LARGE_IMAGE, lighter, re.sub(NOTEBOOKS_OWN, "", self.explorer.view.html))
        shown = re.sub(r'(["#])hatched(?=[")])', rf"\1hatched-{type(self.explorer).__name__}", shown)
        return (f'<p class="live-note">{note}</p>' if note else "") + shown

    def described(self, name):
        """One of the site's controls: its name and its values' labels, and whether a list offers them."""
        control, labels = self.controls.get(name), [*self.grid[name]]
        listed = len(labels) <= LISTED and type(control).__name__ in LISTS
        return {"name": control.description if control else name, "list": listed, "values": labels}

    def states(self):
        """All states for the page's scripts, as trees; the first one's HTML; and the controls that the site lacks."""
        made, views = trees.Trees(), {}
        for place in itertools.product(*(range(len(offered)) for offered in self.grid.values())):
            views[place] = f'<div class="live-view">{self.page(place)}</div>'
            made.add(views[place])
        moved = {name for offered in self.grid.values() for values in offered.values() for name in values}
        rest = [control.description for name, control in self.controls.items() if name not in moved]
        controls = [self.described(name) for name in self.grid]
        found = {"controls": controls, "start": self.start, "trials": len(TRIALS) * self.trains}
        return found | made.packed(), views[tuple(self.start)], rest


def native_control(each, index):
    """A control of the site as HTML, at one of its values."""
    name, values = html.escape(each["name"]), [html.escape(value) for value in each["values"]]
    if each["list"]:
        chosen = {index: " selected"}
        options = [f'<option value="{n}"{chosen.get(n, "")}>{value}</option>' for n, value in enumerate(values)]
        return f'<label>{name} <select autocomplete="off">{"".join(options)}</select></label>'
    room = f'min="0" max="{len(values) - 1}" value="{index}" aria-valuetext="{values[index]}"'
    return f'<label>{name} <input type="range" autocomplete="off" {room}><output>{values[index]}</output></label>'


BUTTONS = """<button type="button" class="live-play">Play</button>
<button type="button" class="live-following">Next trial</button>"""
BLOCK = """<div class="live {kind}" role="group" aria-label="{name}">
<div class="live-controls" hidden>{controls}</div>
<p class="live-said" role="status"></p>
{view}
<script type="application/json">{states}</script>
</div>"""


@cache  # the playground is on two pages
def block(codes, kind):
    """An explorer as HTML, and the controls that only the notebook's has. codes: a tuple."""
    found, view, rest = Live(codes, kind).states()
    controls = "\n".join(map(native_control, found["controls"], found["start"])) + BUTTONS * bool(found["trials"])
    name = re.sub("(?<=[a-z])(?=[A-Z])", " ", kind)
    states = json.dumps(found, ensure_ascii=False, separators=(",", ":")).replace("</", r"<\/")  # would end the script
    return BLOCK.format(kind=kind, name=name, controls=controls, view=view, states=states), rest
