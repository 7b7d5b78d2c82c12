"""Notebook 14: one layer over several processes, by heads or by tokens: what each holds, computes and sends."""

from attention_course.plots import SERIES
from attention_helpers.parallel.split import bytes_held, bytes_sent

from .base import Explorer
from .chart import Chart
from .controls import buttons, stops
from .svg import Drawing, draw_title, tag, text
from .the_kv_cache import HEAD_DIM
from .words import list_numbers, size_in_words

SAID = {"heads": "By heads over {}", "tokens": "By tokens over {}", "zigzag": "By tokens over {}, in zigzag order"}
QUERY_HEADS, PROCESSES = (8, 16, 32, 64, 128), (1, 2, 4, 8)
KV_HEADS = (1, 2, 4, *QUERY_HEADS)
SPLIT_LENGTHS = {f"{2**n:,}": 2**n for n in range(10, 21)}
GPU = 80e9  # bytes of an A100 or H100
BARS_TALL, ROW_HIGH = 200, 24  # pixels: of the bars, and of a process's row


def schedule(split, processes):
    """What each process computes in each step; 1 is one chunk's queries with one chunk's keys, for all heads."""
    if split == "heads" or processes == 1:
        return [[(processes + 1) / 2] for _ in range(processes)]  # all pairs of chunks, for 1 / P of the heads
    if split == "tokens":
        chunks = [(rank,) for rank in range(processes)]
    else:  # zigzag: two chunks each, half as long
        chunks = [(rank, 2 * processes - 1 - rank) for rank in range(processes)]
    visible = lambda queries, keys: sum(query >= key for query in queries for key in keys) / len(keys) ** 2  # noqa: E731
    return [[visible(own, chunks[rank - step]) for step in range(processes)] for rank, own in enumerate(chunks)]


class MachinesExplorer(Explorer):
    """Share one layer of attention among processes, and see what each of them holds, computes and sends.

    Numbers have 2 bytes; attention is causal, without the scores, which a fast layer never stores.
    """

    def make_controls(self):
        split = "What is shared: heads, or tokens in one of two orders"
        return {
            "processes": stops("processes", PROCESSES, 1, "How many processes share the layer"),
            "split": buttons("split", [*SAID], split),
            "num_tokens": stops("num_tokens", SPLIT_LENGTHS.items(), 2**20, "The length of one text"),
            "num_heads": stops("num_heads", QUERY_HEADS, 128, "Heads of queries; each is 128 wide"),
            "num_kv_heads": stops("num_kv_heads", KV_HEADS, 8, "Heads of keys and values, which queries share"),
        }

    def choices(self, values):
        return {"num_kv_heads": [n for n in KV_HEADS if n <= values["num_heads"]]}

    def unused(self, values):
        return {"split": "one process"} if values["processes"] == 1 else {}

    def note(self, wanted, values):
        copies = values["processes"] // values["num_kv_heads"]
        if values["split"] == "heads" and copies > 1:
            return f"There are fewer KV heads than processes, so {copies} processes hold the same one."
        return ""

    def compute(self, split, processes, num_tokens, num_heads, num_kv_heads):
        width, by_heads, work = num_heads * HEAD_DIM, split == "heads", schedule(split, processes)
        kv_width = HEAD_DIM * (max(num_kv_heads, processes) if by_heads else num_kv_heads)
        held = bytes_held("heads" if by_heads else "tokens", processes, num_tokens, width, kv_width, 2)
        sent = bytes_sent(processes, num_tokens, width if by_heads else kv_width, bytes_per_number=2)
        steps = [max(step) for step in zip(*work, strict=True)]
        busy = [sum(own) / sum(steps) for own in work]  # of each process, its share of the time
        total = sum(held.values())
        return {"held": held, "total": total, "sent": sent, "work": work, "steps": steps, "busy": busy}

    def picture(self, state):
        return [[self.memory(state), self.times(state)]]

    def memory(self, state):
        """A stacked bar for each process, and a line for what a GPU has."""
        top = next(n * 10**k for k in range(6, 13) for n in (1, 2, 5) if n * 10**k >= state.total)
        ticks, names = {size: size_in_words(round(size)) for size in (0, top / 2, top)}, range(state.processes)
        names = {0: "", state.processes: ""} | {rank + 0.5: str(rank) for rank in names}
        chart = Chart("memory of each rank", (66, 262, 30, 30 + BARS_TALL), names, ticks, inset=(4, 2))
        below, wide = 0, 0.7 * (chart.x(1) - chart.x(0))
        for n, ((name, size), colour) in enumerate(zip(state.held.items(), SERIES, strict=False)):
            place, y = {"y": chart.y(below + size), "width": wide, "height": BARS_TALL * size / top}, 264 + 16 * n
            for rank in range(state.processes):
                says = f"rank {rank}, {name}: {size_in_words(round(size))}"
                chart.parts.append(tag("rect", says=says, x=chart.x(rank + 0.15), fill=colour, **place))
            chart.parts += [tag("rect", x=66, y=y - 9, width=9, height=9, fill=colour), text(80, y, name, "start")]
            below += size
        if top > GPU:
            chart.parts.append(chart.across(GPU, stroke="currentColor", stroke_dasharray="4 3"))
            chart.parts.append(text(266, chart.y(GPU) + 4, "80 GB", "start"))
        said = ", ".join(f"{name}: {size_in_words(round(size))}" for name, size in state.held.items())
        return chart.finish(305, BARS_TALL + 108)._replace(words=f"Each holds {said}.")

    def times(self, state):
        """A row for each process, and in it a frame for each step, filled for as long as it computes."""
        unit, left, parts = 400 / state.processes, 60, [draw_title("filled: computes; empty: waits", 460)]
        for rank, own in enumerate(state.work):
            x, y = left, 40 + ROW_HIGH * rank
            frame = {"y": y, "height": ROW_HIGH - 6, "stroke": "currentColor", "stroke_width": 0.5}
            parts.append(text(left - 8, y + 14, f"rank {rank}", "end"))
            for step, (mine, longest) in enumerate(zip(own, state.steps, strict=True), 1):
                says = f"rank {rank}, step {step}, computes: {mine / longest:.2f} of the time"
                look = {"fill": "none", "pointer_events": "all", "width": unit * longest}
                parts.append(tag("rect", x=x, width=unit * mine, fill=SERIES[0], **frame) if mine else "")
                parts.append(tag("rect", says=says, x=x, **look, **frame))
                x += unit * longest
        then = "Then all wait for the sum." if state.split == "heads" else "Between two steps, keys and values move on."
        parts.append(text(left, 58 + ROW_HIGH * state.processes, then, "start") if state.processes > 1 else "")
        said = f"Shares of the time computing: {list_numbers(state.busy)}."
        return Drawing("".join(parts), 470, 70 + ROW_HIGH * 8, said)

    def headline(self, state):
        much = f"holds {size_in_words(round(state.total))}"
        if state.processes == 1:
            return f"One process alone {much}" + (", more than a GPU with 80 GB has." if state.total > GPU else ".")
        said = SAID[state.split].format(state.processes)
        return f"{said}: each {much} and sends {size_in_words(state.sent)}."

    def readouts(self, state):
        size = f"{state.num_tokens:,} × {state.num_heads if state.split == 'heads' else state.num_kv_heads} × 128"
        who = f"{min(state.busy):.0%} to {max(state.busy):.0%}" if len({*state.busy}) > 1 else f"{state.busy[0]:.0%}"
        rest = "" if min(state.busy) == 1 else ", and waits for the others in the rest"
        return {
            "sends": f"2 × {state.processes - 1}/{state.processes} × {size} × 2 bytes = {size_in_words(state.sent)}",
            "computes": f"{who} of the time{rest}",
        }
