"""Notebook 10: how large the KV cache of a model gets, and what makes it smaller."""

from attention_course.plots import GREY, head_colour

from .base import Explorer
from .chart import costs
from .controls import stops
from .svg import Drawing, draw_title, in_column, line, move, tag, text
from .the_big_matrix import BYTES, cache_bytes
from .words import plural, size_in_words

ALL_LAYERS, ALL_HEADS, HEAD_DIM = 32, 32, 128  # as in Llama 2 7B
CACHE_LENGTHS = tuple(2**n for n in range(10, 18))  # 1,024 to 131,072
WINDOW_SIZES = {"none": 0, "1,024": 1024, "4,096": 4096}
SHARING_WIDTH, CELL = 384, 12  # of the drawings at the left, and of a head


class CacheExplorer(Explorer):
    """Let a text grow and see its KV cache; share KV heads, set a window, keep its first tokens, choose a dtype.

    The model has ALL_LAYERS layers of ALL_HEADS query heads of width HEAD_DIM.
    """

    def make_controls(self):
        shared = "Heads of keys and values, shared by query heads"
        return {
            "num_tokens": stops("num_tokens", CACHE_LENGTHS, CACHE_LENGTHS[-1], "The length of the text so far"),
            "num_kv_heads": stops("KV heads", [2**n for n in range(6)], ALL_HEADS, shared),
            "window": stops("window", WINDOW_SIZES.items(), 0, "How many tokens one token sees, including itself"),
            "first": stops("first tokens", (0, 4), 0, "How many tokens of the beginning a window keeps as well"),
            "bytes": stops("dtype", BYTES.items(), 2, "The type of the stored numbers: 4, 2 or 1 bytes each"),
        }

    def unused(self, values):
        return {} if values["window"] else {"first": "only with a window"}

    def compute(self, num_tokens, num_kv_heads, window, first, bytes):
        kept = kept_of(num_tokens, window, first)
        per_token = ALL_LAYERS * cache_bytes(1, num_kv_heads * HEAD_DIM, bytes)
        return {"kept": kept, "per_token": per_token, "total": kept * per_token}  # in bytes, of all layers

    def picture(self, state):
        return [[in_column(heads(state.num_kv_heads), text_so_far(state), gap=20), self.growth(state)]]

    def growth(self, state):
        """The chart of bytes by length, for this cache and, if it shares or forgets, for one that doesn't."""
        most = ALL_LAYERS * cache_bytes(1, ALL_HEADS * HEAD_DIM, state.bytes)
        curves = {"this cache": [kept_of(n, state.window, state.first) * state.per_token for n in CACHE_LENGTHS]}
        if state.window or state.num_kv_heads < ALL_HEADS:  # otherwise the two would be the same line
            curves[f"{ALL_HEADS} KV heads, no window"] = [n * most for n in CACHE_LENGTHS]
        ends = 8e6, ALL_LAYERS * cache_bytes(CACHE_LENGTHS[-1], ALL_HEADS * HEAD_DIM, 4)
        drawn = costs(curves, CACHE_LENGTHS, "the cache of all layers", state.num_tokens, ends, 430)
        return drawn._replace(width=438)  # half of the last name is to the right of its place

    def headline(self, state):
        size, each = size_in_words(state.total), size_in_words(state.per_token)
        if state.kept < state.num_tokens:
            return f"At {state.num_tokens:,} tokens the cache takes {size}: it keeps {state.kept:,}, {each} for each"
        return f"At {state.num_tokens:,} tokens the cache takes {size}, {each} for each token"

    def readouts(self, state):
        sizes = f"2 × {ALL_LAYERS} layers × {count_heads(state.num_kv_heads)} × {HEAD_DIM} × {state.bytes} bytes"
        per_byte = 2 * (ALL_HEADS // state.num_kv_heads) / state.bytes  # multiplied and added by each head that shares
        per_token = f"{sizes} = {size_in_words(state.per_token)}"
        return {"per token": per_token, "FLOPs per byte that is read": f"{per_byte:g}"}


def count_heads(num_kv_heads):
    return f"{num_kv_heads} {plural('KV head', num_kv_heads)}"


def kept_of(num_tokens, window, first):
    """How many of num_tokens tokens a cache keeps: a window's own new token comes with it."""
    return min(num_tokens, window - 1 + first) if window else num_tokens


def heads(num_kv_heads):
    """Query heads in a row, each in the colour of the KV head below that it reads."""
    group, top = ALL_HEADS // num_kv_heads, 50
    parts = [draw_title("who shares what", SHARING_WIDTH), text(0, top - 6, f"{ALL_HEADS} query heads", "start")]
    parts.append(text(0, top + 84, count_heads(num_kv_heads), "start"))
    for head in range(ALL_HEADS):
        owner, look = head // group, {"width": CELL - 2, "height": CELL, "fill": head_colour(head // group)}
        middle = (owner + 0.5) * group * CELL
        parts.append(tag("rect", says=f"query head {head + 1} reads KV head {owner + 1}", x=head * CELL, y=top, **look))
        parts.append(line(head * CELL + 5, top + CELL, middle - 1, top + 56, stroke=look["fill"]))
        if head % group == 0:
            parts.append(tag("rect", says=f"KV head {owner + 1}", x=float(middle - 6), y=top + 56, **look))
    said = f"{ALL_HEADS} query heads share {count_heads(num_kv_heads)}."
    return Drawing("".join(parts), SHARING_WIDTH, top + 90, said)


def text_so_far(state):
    """The text as a bar, filled where the cache keeps its tokens."""
    parts, top = [draw_title("tokens that the cache keeps", SHARING_WIDTH)], 30
    pixels = SHARING_WIDTH / state.num_tokens
    last = state.kept - min(state.first, state.kept) * bool(state.window)
    spans = {"first": (0, state.kept - last), "last": (state.num_tokens - last, state.num_tokens)}
    for name, (start, end) in spans.items():
        if end > start:
            width = max(2.0, (end - start) * pixels)
            place = {"x": float(min(start * pixels, SHARING_WIDTH - width)), "y": top, "width": width, "height": 18}
            parts.append(tag("rect", says=f"{name} tokens kept: {end - start:,}", fill=GREY, **place))
    parts.append(move(tag("rect", width=SHARING_WIDTH, height=18, fill="none", stroke="currentColor"), 0, top))
    parts.append(text(0, top + 34, "0", "start") + text(SHARING_WIDTH, top + 34, f"{state.num_tokens:,}", "end"))
    return Drawing("".join(parts), SHARING_WIDTH, top + 40)
