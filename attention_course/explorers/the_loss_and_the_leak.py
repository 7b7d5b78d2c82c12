"""Notebook 08: type a text, and see what a masked and a leaky model attend to and predict."""

import math

import ipywidgets as widgets
import torch

from attention_course.plots import GREY
from attention_helpers import attention_maps, causal_mask

from .base import Explorer
from .controls import stops
from .ink import weight_limit
from .svg import arcs, bars, in_column
from .svg_maps import colour_bar, head_maps

FIRST_TEXT, BACK = "The river", 5  # after "The ": nobody can know which letter comes, unless it's there to be read
BLANKS = str.maketrans({" ": "␣", "\n": "⏎"})
MOST_LIKELY = 8  # next characters that are shown
GETS = {"leaky": "has read it:"}  # for the model that sees what comes
READS, MAPS_ROOM = 290, 400  # widths: arcs and bars, where 32 letters fit; four maps in a row


class TextExplorer(Explorer):
    """Type a text, and see each model's maps and its predictions for the character after one position.

    models: CharacterModels by name, all of one size; one named "leaky" has no mask. task: the Characters they were
    trained on; the models read only the last `window` characters that the task knows.
    """

    def __init__(self, models, task):
        self.models, self.task = dict(models), task
        super().__init__()

    def make_controls(self):
        typed = widgets.Text(FIRST_TEXT, description="text", tooltip="What the models read")
        return {"text": typed, "back": stops("positions back", [BACK], BACK, "From the end of the text")}

    def known(self, text):
        """The text without characters that the models never met."""
        return "".join(character for character in text if character in self.task.vocabulary)

    def choices(self, values):
        return {"back": range(max(1, min(len(self.known(values["text"])), self.task.window)))[::-1]}

    def note(self, wanted, values):
        text, window = values["text"], self.task.window
        unknown = [repr(character)[1:-1] for character in dict.fromkeys(text) if character not in self.task.vocabulary]
        left_out = f"Not in the course's text, so left out: {', '.join(unknown)}." if unknown else ""
        cut = f"The models read the last {window} characters." if len(self.known(text)) > window else ""
        return f"{left_out} {cut}".strip()

    def compute(self, text, back):
        vocabulary, known = self.task.vocabulary, self.known(text)[-self.task.window :]
        if not known:
            raise ValueError(f"text must have a character of the course's text, got {text!r}")
        place, token_ids = len(known) - 1 - back, torch.tensor([[vocabulary.index(character) for character in known]])
        weights, shares = {}, {}  # by model: (num_heads, num_tokens, num_tokens), and by next character, the best first
        for name, model in self.models.items():
            training = model.training
            best, token_ids_of = model.eval()(token_ids)[0, place].softmax(dim=-1).sort(descending=True, stable=True)
            shares[name] = {vocabulary[n]: share for n, share in zip(token_ids_of.tolist(), best.tolist(), strict=True)}
            weights[name] = attention_maps(model, token_ids)[0][0]
            model.train(training)  # its mode stays
        comes = known[place + 1 : place + 2]  # what actually comes next, or ""
        return {"text": known, "place": place, "weights": weights, "shares": shares, "written": comes}

    def picture(self, state):
        tokens = [*state.text.translate(BLANKS)]
        future, limit = causal_mask(len(tokens)), weight_limit(len(tokens))
        bar, rows = colour_bar(limit, height=100), []
        touch = [f"back {back}" for back in reversed(range(len(tokens)))]
        for name, weights in state.weights.items():
            asked, hidden = f"{name} model: what “{tokens[state.place]}” looks at", future & (name != "leaky")
            far = max(state.place, (len(tokens) - 1 - state.place) * (name == "leaky"))
            arcs_of = arcs(weights[:, state.place], tokens, state.place, asked, width=READS, height=60, far=far)
            look = {"width": MAPS_ROOM, "height": 171, "row": state.place, "bar": bar, "touch": touch}
            maps = head_maps(weights, tokens, limit, hidden, **look)
            left = in_column(arcs_of, self.expected(state, name))
            rows.append([left._replace(words=f"The {name} model: {left.words}"), maps])
        return rows

    def expected(self, state, name):
        """Bars of a model's most likely next characters, and of the one that comes, which has a tick."""
        every = {each: guesses(shares, state.written) for each, shares in state.shares.items()}
        names = [character.translate(BLANKS) + " ✓" * (character == state.written) for character in every[name]]
        title = "probability of the next character" + ", ✓ comes" * bool(state.written)
        most = max(max(each.values()) for each in every.values())
        end = next((end for end in (0.1, 0.2, 0.5) if most <= end), 1.0)  # of both models' axes
        look = {"width": READS, "height": 60, "colours": [GREY]}
        return bars({"probability": [*every[name].values()]}, names, title, (0.0, end), **look)

    def headline(self, state):
        if not state.written:
            best = {name: next(iter(shares.items())) for name, shares in state.shares.items()}
            said = [f"{name} expects “{each.translate(BLANKS)}” ({share:.2f})" for name, (each, share) in best.items()]
            return f"Nothing follows yet: {', '.join(said)}"
        shares = {name: shares[state.written] for name, shares in state.shares.items()}
        said = [f"the {name} model {GETS.get(name, 'gives it')} {share:.2f}" for name, share in shares.items()]
        return f"“{state.written.translate(BLANKS)}” comes next: {', '.join(said)}"

    def readouts(self, state):
        if not state.written:
            return {}
        losses = [f"{name} {-math.log(shares[state.written]):.2f} nats" for name, shares in state.shares.items()]
        return {f"loss for “{state.written.translate(BLANKS)}”": ", ".join(losses)}

    def _repr_mimebundle_(self, **kwargs):
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": "TextExplorer: run this cell to type."}


def guesses(shares, written):
    """The most likely characters with their probabilities; the last can give way to the one that comes."""
    best = [*shares][:MOST_LIKELY]
    if written and written not in best:
        best[-1] = written
    return {character: shares[character] for character in best}
