"""Notebook 08: type a text, and see what a masked and a leaky model attend to and predict."""

import ipywidgets as widgets
import torch

from attention_course.plots import GREY
from attention_helpers import attention_maps, causal_mask

from .base import Explorer, State
from .controls import stops
from .ink import weight_limit
from .svg import arcs, bars, in_column, scale_of
from .svg_maps import colour_bar, head_maps

FIRST_TEXT, BACK = "The river", 5  # after "The ": nobody can know which letter comes, unless it's there to be read
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
        back = stops("positions back", [BACK], BACK, "From the end of the text")
        return {"text": typed, "back": back}

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
        readings = {name: read_text(model, token_ids, place) for name, model in self.models.items()}
        comes = known[place + 1 : place + 2]  # what actually comes next, or ""
        return {"text": known, "place": place, "vocabulary": vocabulary, "readings": readings, "written": comes}

    def picture(self, state):
        tokens = [show_blank(character) for character in state.text]
        future, limit = causal_mask(len(tokens)), weight_limit(len(tokens))
        bar, rows = colour_bar(limit, height=100), []
        touch = [f"back {back}" for back in reversed(range(len(tokens)))]
        for name, reading in state.readings.items():
            asked, hidden = f"{name} model: what “{tokens[state.place]}” looks at", future & (name != "leaky")
            far = max(state.place, (len(tokens) - 1 - state.place) * (name == "leaky"))
            look = {"width": READS, "height": 60, "far": far}
            arcs_of = arcs(reading.weights[:, state.place], tokens, state.place, asked, **look)
            look = {"width": MAPS_ROOM, "height": 171, "row": state.place, "bar": bar, "touch": touch}
            maps = head_maps(reading.weights, tokens, limit, hidden, **look)
            left = in_column(arcs_of, self.expected(state, name))
            rows.append([left._replace(words=f"The {name} model: {left.words}"), maps])
        return rows

    def expected(self, state, name):
        """Bars of a model's most likely next characters, and of the one that comes, which has a tick."""
        guesses = self.guesses(state, name, MOST_LIKELY)
        names = [show_blank(character) + " ✓" * (character == state.written) for character in guesses]
        title = "probability of the next character" + ", ✓ comes" * bool(state.written)
        end = scale_of(self.guesses(state, each, MOST_LIKELY).values() for each in state.readings)
        look = {"width": READS, "height": 60, "colours": [GREY]}
        return bars({"probability": [*guesses.values()]}, names, title, (0.0, end), **look)

    def guesses(self, state, name, count):
        """A model's probabilities of its most likely next characters; the last may give way to the one that comes."""
        _, token_ids = state.readings[name].shares.topk(count)
        characters = [state.vocabulary[token_id] for token_id in token_ids]
        if state.written and state.written not in characters:
            characters[-1] = state.written
        return {character: probability(state, name, character) for character in characters}

    def headline(self, state):
        if not state.written:
            best = {name: next(iter(self.guesses(state, name, 1).items())) for name in state.readings}
            said = [f"{name} expects “{show_blank(each)}” ({share:.2f})" for name, (each, share) in best.items()]
            return f"Nothing follows yet: {', '.join(said)}"
        shares = {name: probability(state, name, state.written) for name in state.readings}
        said = [f"the {name} model {GETS.get(name, 'gives it')} {share:.2f}" for name, share in shares.items()]
        return f"“{show_blank(state.written)}” comes next: {', '.join(said)}"

    def readouts(self, state):
        if not state.written:
            return {}
        place = state.vocabulary.index(state.written)
        losses = {name: -reading.shares[place].log().item() for name, reading in state.readings.items()}
        said = ", ".join(f"{name} {loss:.2f} nats" for name, loss in losses.items())
        return {f"loss for “{show_blank(state.written)}”": said}

    def _repr_mimebundle_(self, **kwargs):
        return super()._repr_mimebundle_(**kwargs) | {"text/plain": "TextExplorer: run this cell to type."}


def read_text(model, token_ids, place):
    """A model's weights for token_ids (1, num_tokens), and its shares: probabilities of the character after a place."""
    training = model.training
    shares = model.eval()(token_ids)[0, place].softmax(dim=-1)  # (characters,)
    weights = attention_maps(model, token_ids)[0][0]  # (num_heads, num_tokens, num_tokens)
    model.train(training)  # its mode stays
    return State(weights=weights, shares=shares)


def probability(state, name, character):
    return state.readings[name].shares[state.vocabulary.index(character)].item()


def show_blank(character):
    return {" ": "␣", "\n": "⏎"}.get(character, character)
