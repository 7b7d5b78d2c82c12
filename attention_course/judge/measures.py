"""What's measured of a layer without knowing what it should compute: each function measures one thing.

A function takes a Case, and returns a Verdict, or None if there's nothing to say. One that fails doesn't stop others.
"""

import ast
import inspect
import textwrap
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, cached_property

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attention_helpers.probes import find_leak, max_difference, perturbation_influence, rounding
from attention_helpers.state import keep_state

from .calling import seed_all, widen
from .lines import error_line, failure
from .seen import NEAR, is_table, record
from .twins import explain
from .verdicts import Verdict

IN_PLACE = {name.removesuffix("_") for name in vars(torch._C.TensorBase) if name.endswith("_") and name[0] != "_"}


class Case:
    """One layer on one sentence, and what's measured once for several verdicts.

    trained: the same layer with dropout, if this one has none. hint: how many heads its class was asked for. like: the
    rows of the list that explain the layer at other sizes.
    """

    def __init__(self, call, trained=None, hint=None, like=()):
        self.call, self.trained, self.hint, self.like = call, trained or call.layer, hint, like

    @cached_property
    def seen(self):
        return record(self.call, self.call.x)

    @cached_property
    def dropped(self):
        """The record of a call in training, with a fifth of what can be dropped dropped; None if it fails."""
        with suppress(Exception):
            return self.drawn(0)

    def drawn(self, seed):
        with self.training(0.2, seed):
            return record(self.call, self.call.x)

    @cached_property
    def sound(self):
        return not self.call.random and bool(self.call.rows.isfinite().all())

    @cached_property
    def leak(self):
        return find_leak(self.call.output, self.call.x)

    @cached_property
    def unmasked(self):
        """Whether each token reads all tokens."""
        moved = self.call.moved
        hidden = self.seen.used.amin(dim=0) == 0 if self.seen.maps else moved <= self.call.near
        return self.sound and bool(self.leak) and not hidden.any()

    @cached_property
    def twins(self):
        return explain(self.call, self.seen, self.hint, self.unmasked, self.like)

    @cached_property
    def gap(self):
        """How far rows in training differ from eval mode's if nothing is dropped; 0 if they're random even so."""
        made = []
        for seed in range(2):
            with self.training(1e-9, seed), suppress(Exception):
                made.append(self.call.rows_of(self.call(self.call.x.clone())))
        gaps = [max_difference(self.call.rows, each) for each in made]
        return gaps[0] if len(gaps) == 2 and gaps[0] == gaps[1] and gaps[0] > self.call.near else 0.0

    @cached_property
    def grads(self):
        """The gradient of a fixed mixture of all rows for each parameter that wants one, and for "x"; None for none."""
        with torch.enable_grad():
            x = self.call.x.clone().requires_grad_()
            return gradients_of(self.call.rows_of(self.call(x.clone())), self.call.parameters | {"x": x})

    @torch.no_grad()
    def moves(self, name, size=0.1, **options):
        """Whether the rows change, in either mode, if a parameter moves by a share of its largest number."""
        return self.moves_in(self.call.layer, name, size, options) or self.moves_in(self.trained, name, size, options)

    def moves_in(self, layer, name, size, options):
        call = self.call
        parameter = dict(layer.named_parameters())[name]
        step = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)).to(parameter)
        step *= size * parameter.abs().max().clamp(min=0.1)

        def rows():
            seed_all(0)
            return call.rows_of(call(call.x.clone(), **options))

        with self.training(1e-9) if layer is self.trained and layer is not call.layer else nullcontext():
            before = rows()
            parameter.data += step
            gap = max_difference(before, rows())
            parameter.data -= step
        return not gap <= 4 * call.near

    @property
    def mistake(self):
        return not self.call.random and self.twins[0] and self.twins[0].mistake

    @contextmanager
    def training(self, p, seed=0):
        """The layer with dropout in training mode, where torch's functions drop with this probability."""
        call = self.call
        layer, call.layer = call.layer, self.trained
        try:
            with keep_state(self.trained, training=True), DropoutOf(p):
                torch.default_generator.manual_seed(seed)
                for part in self.trained.modules() if call.parts else ():
                    if isinstance(part, torch.nn.MultiheadAttention):
                        part.dropout = p
                yield
        finally:
            call.layer = layer


class DropoutOf(TorchFunctionMode):
    """While active, torch's functions drop with this probability where they'd drop at all."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is functional.dropout:
            args, kwargs = (args[0], self.p, *args[2:]), {key: each for key, each in kwargs.items() if key != "p"}
        elif func is functional.scaled_dot_product_attention and kwargs.get("dropout_p"):
            kwargs = kwargs | {"dropout_p": self.p}
        return func(*args, **kwargs)


def gradients_of(rows, named):
    """The gradient of a fixed mixture of all rows, for each named tensor that wants one; None where none arrives."""
    named = {name: each for name, each in named.items() if each.requires_grad}
    if not rows.requires_grad:
        return dict.fromkeys(named)
    weights = torch.randn(rows.shape, generator=torch.Generator().manual_seed(0)).to(rows)
    grads = torch.autograd.grad((rows * weights).sum(), [*named.values()], allow_unused=True)
    return dict(zip(named, grads, strict=True))


def on_returned_weights(case):
    """On a layer whose rows are its weights, as wide as there are tokens."""
    call, n = case.call, case.call.x.shape[-2]
    tables = [each.weights.reshape(-1, n, n) for each in case.seen.maps]
    if call.rows.shape != (n, n) or not any(torch.equal(widen(call.rows), widen(each).mean(0)) for each in tables):
        return None
    if call.output(call.x[..., :-1, :]).shape[-1] == n:
        return None
    where = case.seen.maps[0].made.where
    return Verdict("✗", "It returns its attention weights", f"{where} makes them; return them times the values")


def on_unregistered(case):
    """On layers in a list or dictionary, which a module doesn't know."""
    known, lost = {id(part) for part in case.call.parts}, 0
    for part in case.call.parts:
        for held in vars(part).values():
            inside = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else ()
            loose = [each for each in inside if isinstance(each, torch.nn.Module) and id(each) not in known]
            lost += sum(each.numel() for module in loose for each in module.parameters())
    words = f"`parameters()` lacks {lost} trainable numbers: keep layers in an nn.ModuleList, not in a list"
    return Verdict("✗", "Parameters aren't registered", words) if lost else None


def on_state(case):
    """On a layer that returns something else at the second call."""
    if case.call.writes:
        return Verdict("✗", "It writes into its input", "x is another after the call: begin with `x = x.clone()`")
    if not case.call.isolated:
        return None
    kept = ", ".join(f"`{name}`" for name in case.call.kept) or "something"
    words = f"a second call with the same x returns other rows, because the first has left {kept}"
    return Verdict("✗", "It keeps something between calls", words)


def on_chance(case):
    if not case.call.random:
        return None
    drew = case.seen.first(lambda each: each.drew)
    where = f"{drew.where if drew else 'something'} draws at each call, not only if self.training"
    return Verdict("✗", "It's random in eval mode too", where)


def on_nan(case, seen=None, mode=""):
    """On rows with NaN or infinity, and what made the first."""
    seen = seen or case.seen
    rows = case.call.rows_of(seen.result)
    if rows.isfinite().all() or (case.call.random and not mode):
        return None
    first = seen.first(lambda each: each.varies and each.made.is_floating_point() and each.made.isnan().any())
    why = ", because all that it sums over is hidden" if first and first.name == "softmax" else ""
    row = case.call.say("row", (~rows.isfinite()).any(dim=-1).nonzero()[0].item())
    what = "NaN" if rows.isnan().any() else "infinite"
    words = f"{first.where} makes the first NaN{why}" if first else "no operation that we saw made it"
    if case.mistake and not mode:
        words = f"{words}. {case.mistake.reply}"
    return Verdict("✗", f"{mode}{row if mode else row[0].upper() + row[1:]} is {what}", words)


def on_the_future(case):
    """Whether an earlier row depends on a later token, as find_leak perturbs them, and why."""
    if not case.sound:
        return None
    call, leak = case.call, case.leak
    if not leak:
        claim = f"It reads all of {call.other_name}" if call.other_name else "It reads only the past"
        return Verdict("✓", claim, f"{leak.tried} perturbations of later tokens moved no earlier row")
    moved = f"{call.say('row', leak.row)} {leak.moves} when {call.say('token', leak.token)} {leak.what}"
    thrown = thrown_away(call.layer, ("masked_fill", "where", "tril", "triu", "masked_scatter"))
    if case.mistake and case.mistake.leaks:
        return Verdict("✗", "It reads the future", f"{moved}. {case.mistake.reply}", case.mistake.reply)
    if case.unmasked and not thrown:
        trained = case.dropped
        if trained and trained.maps and not trained.made.triu(1).any():
            return Verdict(
                "✗", "In eval mode, it reads the future", "only in training, no weight is after the diagonal"
            )
        unasked = f", and `forward` got no `{call.mask}`" if call.mask else ""
        return Verdict("•", "It has no mask", f"each token reads all tokens{unasked}; {moved}")
    cause = thrown or cause_of_leak(case)
    return Verdict("✗", "It reads the future", f"{moved}{cause and ': '}{cause}", cause)


def thrown_away(layer, names):
    """The first statement that computes such a copy, and gives it no name: "line 12 computes masked_fill and …"."""
    kinds = {type(part) for part in layer.modules()} if isinstance(layer, torch.nn.Module) else {type(layer)}
    kinds = [kind for kind in kinds if not kind.__module__.startswith("torch.")]
    functions = [each for kind in kinds for each in vars(kind).values() if inspect.isfunction(each)]
    found = (statement for each in functions for statement in bare_calls(each) if statement[1] in names)
    return next((f"line {line} computes {name} and throws it away" for line, name in found), "")


@cache
def bare_calls(function):
    """(line, name) of each call in a function's text whose result gets no name."""
    try:
        lines, start = inspect.getsourcelines(function)
        nodes = ast.walk(ast.parse(textwrap.dedent("".join(lines))))
    except (OSError, SyntaxError, TypeError):
        return []
    bare = [node.value for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    return [(start + call.lineno - 1, call.func.attr) for call in bare if isinstance(call.func, ast.Attribute)]


def cause_of_leak(case):
    """What lets the future in, in words; "" if nothing shows it."""
    seen, used, made = case.seen, case.seen.used, case.seen.made
    n = seen.num_tokens
    if not seen.maps:
        return first_mixer(case.call)
    if near_one(made.sum(dim=-2)) and not near_one(used.sum(dim=-1)):
        return "its columns sum to 1, not its rows"
    value = finite_score(seen)
    future = used.triu(1).any()
    if value is not None and (future or not (case.call.moved.triu(1) > case.call.near).any()):
        return f"it hides by a score of {value:.4g}, not far below others: fill with -inf"
    if not future:
        return (
            "a large score there takes all: mask the scores before exp"
            if made.triu(1).any()
            else first_mixer(case.call)
        )
    if n > 2 and not used[:, :-1].tril(-1).any():
        return "its mask hides the past instead"
    if not used.triu(2).any():
        return "its mask begins one diagonal too late"
    if not used.triu(1)[:, 1:].any():
        return "its mask begins one diagonal too early, so row 0 averages over all tokens"
    return "its mask hides only some of it"


def near_one(sums, near=NEAR):
    return bool(((sums - 1).abs() <= near).all())


def finite_score(seen):
    """The finite number that softmax gets for hidden scores; None if there isn't one."""
    after = torch.ones(seen.num_tokens, seen.num_tokens).triu(1).bool()
    hidden = seen.scores[:, after]
    if hidden.numel() < 2:
        return None
    own = seen.scores.masked_fill(after, torch.inf).amin(dim=-1)[:, :-1]
    equal, below = bool((hidden == hidden[0, 0]).all()), bool(hidden.max() < own.min() - 5)
    value = hidden.mean().item()
    return value if -1e6 <= value < torch.inf and (equal or below) else None


def first_mixer(call):
    """A leak through the first operation whose numbers for earlier tokens change when the last token does."""
    n, x = call.x.shape[-2], call.x.clone()
    x[..., -1, :] += 1
    for first, second in zip(record(call, call.x).operations, record(call, x).operations, strict=False):
        before, after = first.made, second.made
        if before.shape != after.shape or first.name in ("pad", "cat"):
            continue
        places = [dim for dim, size in enumerate(before.shape) if size == n]
        for dim in places:
            before, after = before.narrow(dim, 0, n - 1), after.narrow(dim, 0, n - 1)
        reduces = before.numel() < max((each.numel() for each in first.inputs), default=0)
        if (places or reduces) and not torch.equal(before, after):
            return f"{first.where} mixes later tokens into earlier rows"
    return ""


def on_training(case):
    """The first fault that shows only in training mode."""
    if not case.sound or not case.dropped:
        return None
    dropped, call = case.dropped, case.call
    if not case.leak and (case.gap or dropped.made.triu(1).any()) and (verdict := leak_in_training(case)):
        return verdict
    names = [each.name for each in dropped.operations]
    before = dropped.operations[: names.index("softmax")] if "softmax" in names else []
    table = next((each for each in before if each.drew and is_table(each.made, dropped.num_tokens)), None)
    if table:
        words = f"{table.where} sets scores to 0, which hides nothing: drop weights, after softmax"
        return Verdict("✗", "In training, it drops scores", words)
    for seed in range(3):
        with case.training(0.5, seed), suppress(Exception):
            if not call.output(call.x).isfinite().all():
                torch.default_generator.manual_seed(seed)
                return on_nan(case, record(call, call.x), "In training with dropout, ")
    return on_scaled(case)


def leak_in_training(case):
    """A row that reads the future if each call draws the same; None if there's none, or calls differ all the same."""
    call = case.call

    def output(x):
        torch.default_generator.manual_seed(0)
        return call.output(x)

    with case.training(1e-9):
        cause = first_mixer(call)
    with case.training(0.2), suppress(Exception):
        moved = perturbation_influence(output, call.x, 1.0).triu(1)
        leaks = (moved > rounding(call.rows[None], call.x.reshape(1, -1)).item()).nonzero().tolist()
        if leaks and torch.equal(output(call.x), output(call.x)):
            (row, token), *_ = leaks
            words = f"{call.say('row', row)} moves by {moved[row, token]:.2g} when {call.say('token', token)} changes"
            return Verdict("✗", "In training, it reads the future", words, cause)
    return None


def on_scaled(case):
    """On weights whose mean isn't in training what it is in eval mode."""
    dropped = case.dropped
    draws = [each for each in dropped.operations if each.drew]
    made, used = dropped.made, dropped.used
    left = used[(used > 0) & (made > 0)] / made[(used > 0) & (made > 0)]
    if not draws or not len(left) or not ((used == 0) & (made > 1e-3)).any():
        return None
    how = ""
    if (left - 1).abs().max() < 1e-3:
        how = "the weights that are left aren't divided by 1 - p"
    elif (left - 5).abs().max() < 1e-3:
        how = "the weights that are left are divided by p, not by 1 - p"
    elif sum(is_table(each.made, dropped.num_tokens) for each in draws) > len(dropped.maps):
        share = sum(case.drawn(seed).used.sum() for seed in range(16)) / 16 / made.sum()
        how = f"weights are dropped more than once, and their sum is {share:.1f} of what it was" * (
            abs(share - 1) > 0.1
        )
    return Verdict("✗", "In training, its weights have another scale", how) if how else None


def on_the_past(case):
    """Whether each row depends on its own token and all earlier ones; a window is named."""
    call = case.call
    if not case.sound or call.other_name:
        return None
    unread = unread_tokens(call)
    if not unread.any():
        rows = "all tokens" if case.unmasked else "its whole past"
        return Verdict("✓", f"Each token reads {rows}", "perturbing a token moves each row that may read it")
    places = torch.arange(len(call.rows))
    distance = places[:, None] - places
    read = ~unread & (distance >= 0)
    if not (read & (distance > 0)).any() and not case.leak:
        return Verdict("✗", "Each token reads only itself", "no perturbation of another token moves a row")
    window = int(distance.where(read, -1).max()) + 1
    if torch.equal(read, (distance >= 0) & (distance < window)):
        words = f"each token reads itself and the {'token' if window == 2 else f'{window - 1} tokens'} before it"
        return Verdict("•", f"It has a sliding window of {window}", words)
    row = int(unread.any(dim=1).nonzero().max())
    missed = unread[row].nonzero().flatten().tolist()
    words = f"{call.say('token', row)} never reads {call.say('token', *missed)}"
    if case.mistake or not read[row].any():
        return Verdict("✗", "Tokens miss part of their past", words, case.mistake.reply if case.mistake else "")
    return Verdict("?", "Does each token read its whole past?", words)


def unread_tokens(call):
    """Which token (column) moves which row after it by no more than rounding, (num_tokens, num_tokens).

    A sharp softmax can make a small perturbation's effect smaller than rounding, so we try larger and smaller ones.
    """
    still = (call.moved <= call.near).tril()
    for times, size in (0.01, 0.01), (1, -1), (1, 10), (1, -10), (1, 100), (1, -100), (1, 1e3), (1, -1e3):
        if not still.any():
            break
        with suppress(Exception):
            x = times * call.x
            near = rounding(widen(call.output(x)).reshape(1, -1), (size * torch.ones(1, 1)).to(x)).item()
            still &= perturbation_influence(call.output, x, size) <= near  # nor is NaN
    return still


def on_row_sums(case):
    """Whether each row of the weights that average the values sums to 1; rows of NaN have a verdict of their own."""
    if case.call.random:
        return None
    seen, made, used = case.seen, case.seen.made, case.seen.used
    n = seen.num_tokens
    more = seen.first(
        lambda each: each.name == "softmax" and each.made.shape[-2:-1] == (n,) and each.made.shape[-1] > n
    )
    if not seen.maps and more:
        return Verdict("✓", "Rows sum to 1", f"in {more.where}, over {more.made.shape[-1]} keys")
    if not seen.maps:
        words = f"no map found: no operation made attention weights (..., {n}, {n}) from the tokens"
        return Verdict("?", "Do rows sum to 1?", words)
    again = next((each.again for each in seen.maps if each.again), None)
    if again:
        words = f"{again.where} runs on weights that softmax has already made: where they are 0, it makes them larger"
        return Verdict("✗", "Softmax runs twice", words)
    sums = used.sum(dim=-1)
    near = max(NEAR, *(torch.finfo(each.weights.dtype).eps for each in seen.maps))
    if sums.isnan().any():
        return None
    if near_one(sums, near):
        return Verdict("✓", "Rows sum to 1", f"in all its maps: {len(used)}")
    why = "after softmax some weights are changed"
    if not near_one(made.sum(dim=-1), near):
        why = f"{seen.maps[0].made.where} makes columns that sum to 1"
    elif ((sums.abs() < near) | ((sums - 1).abs() < near)).all():
        why = "where all keys are hidden, all weights are 0"
    elif (used - sums.max() * made).abs().nan_to_num().max() < near:
        why = f"after softmax all weights are multiplied by {sums.max():.2g}"
    return Verdict("✗", "Rows don't sum to 1", f"from {sums.min():.2f} to {sums.max():.2f}: {why}", why)


def on_unused(case):
    """On parameters that move no row in either mode, and on a copy that's thrown away."""
    call = case.call
    if thrown := thrown_away(call.layer, IN_PLACE):
        return Verdict("✗", "A result is never used", thrown)
    if not case.sound:
        return None
    idle = [name for name, each in call.parameters.items() if each.numel() and not case.moves(name)]
    # the same for all keys, so softmax doesn't see it
    idle = [name for name in idle if not name.endswith("bias") or f"{name.removesuffix('bias')}weight" in idle]
    flags = [name for name, each in call.options.items() if each in (True, False)]
    switched = {name for name in idle for flag in flags if case.moves(name, **{flag: not call.options[flag]})}
    names = ", ".join(idle)
    if not idle:
        return Verdict("✓", "Every parameter is used", "moving any of them moves rows")
    if switched:
        words = f"{names} moves rows only with another value of `{'`, `'.join(flags)}`"
        return Verdict("?", "Should a parameter be used?", words)
    return Verdict(
        "✗", "A parameter is never used", f"moving it moves no row, in eval mode or in training: {names}", names
    )


def on_gradients(case):
    """On parameters whose change moves the rows, though no gradient reaches them; None if there are none."""
    if not case.sound or not case.call.parts:
        return None
    none = [name for name, grad in case.grads.items() if name != "x" and (grad is None or not grad.any())]
    cut = record(case.call, case.call.x, grad=True).first(lambda each: each.cuts) if none else None
    lost = ", ".join(name for name in none if case.moves(name, 10.0 if cut else 0.1))
    where = f"{cut.where} cuts it off" if cut else "some step's slope is 0 everywhere"
    words = f"{lost} move the rows, but training can't change them: {where}"
    return Verdict("✗", "A parameter gets no gradient", words, f"{where}, so {lost} can't learn") if lost else None


def on_the_course(case):
    """Whether a layer computes what the course's does with the same matrices, or what one with a mistake does."""
    if not case.sound:
        return None
    found, usual = case.twins
    if not found:
        return usual and unlike_the_course(case, usual)
    name, more = name_of_twin(case, found)
    if found.mistake:
        if found.mistake.leaks:
            return None  # which is said of the future
        sign = "?" if found.mistake.meant else "✗"
        words = f"with the same matrices, {name}{more} that {found.mistake.name} returns the same rows."
        return Verdict(sign, f"It {found.mistake.name}", f"{words} {found.mistake.reply}", found.mistake.reply)
    if case.gap:
        words = f"in training, without dropout, rows differ by {case.gap:.2g} from eval mode's, which are as in {name}"
        return Verdict("?", "Should training compute something else?", words)
    if wrong := wrong_gradients(case, found):
        words = f"the numbers are as in {name}, but the gradients of {', '.join(wrong)} aren't"
        return Verdict("✗", "Its gradients are wrong", words)
    if not found.rotation and (placed := case.seen.first(multiplies_by_place)):
        words = (
            f"{placed.where} multiplies by numbers that differ from place to place, though its rows are as in {name}"
        )
        return Verdict("?", "Do its positions count?", f"{words}, which knows no positions")
    words = f"with the same matrices, {name}{more} returns the same rows"
    return Verdict("✓", "As in the course", words, f"computes what the course's {name} computes{more}")


def unlike_the_course(case, usual):
    """On a layer that no twin explains, though its matrices could be one's."""
    words = "its matrices fit MultiHeadAttention, but the numbers differ"
    with suppress(Exception):
        ours = usual.output(widen(case.call.x.reshape(-1, case.call.x.shape[-1])))
        words = f"{words} by {max_difference(ours, case.call.rows):.2g}"
    return Verdict("•", "Not as in the course", words)


def name_of_twin(case, twin):
    """Which of the course's classes has such parts, and what's different from it."""
    masked = twin.masked
    if twin.matrices.out or twin.num_heads > 1:
        name = "MultiHeadAttention" if twin.matrices.out else "MultiHeadAttentionWrapper"
    elif masked:
        name = "CausalAttention"
    else:
        name = f"SelfAttention_v{2 if any(isinstance(part, torch.nn.Linear) for part in case.call.parts) else 1}"
        masked = True
    shared = len(twin.matrices.keys[0]) < len(twin.matrices.queries[0])
    added = filter(None, [twin.rotation, "shared KV heads" * shared, "a residual" * twin.residual])
    more = "".join(f" {word} {each}" for word, each in zip(("with", "and", "and"), added, strict=False))
    unasked = f": `forward` got no `{case.call.mask}`" if case.call.mask else ""
    return name, more + ("" if masked else f" without its mask{unasked}")


def wrong_gradients(case, twin):
    """The names of parameters, and x, whose gradients aren't those of the twin."""
    if any(each.made.dtype in (torch.float16, torch.bfloat16) for each in case.seen.operations):
        return []
    with torch.enable_grad():
        x = case.call.x.reshape(-1, case.call.x.shape[-1]).clone().requires_grad_()
        ours = gradients_of(twin.output(x), case.call.parameters | {"x": x})
    return [name for name, grad in ours.items() if grad is not None and not alike(case.grads[name], grad)]


def alike(grad, ours):
    """Whether two gradients are the same but for rounding; None is 0."""
    grad = torch.zeros_like(ours) if grad is None else grad
    return max_difference(grad.reshape(ours.shape), ours) <= 1e-3 * max(1.0, ours.abs().max().item())


def multiplies_by_place(operation):
    """Whether what comes from the sentence is multiplied by other numbers than a mask's, as by cosines."""
    tables = [each for each in operation.fixed if each.numel() > 1 and not each.requires_grad]
    return operation.name == "mul" and operation.varies and any(not ((t == 0) | (t == 1)).all() for t in tables)


def on_fewer_tokens(case):
    """Whether the layer accepts a shorter sentence, as a text model must."""
    n = case.call.x.shape[-2]
    try:
        with torch.no_grad():
            case.call(case.call.x[..., :-1, :].clone())
        return Verdict("✓", "It accepts shorter inputs", f"{n - 1} tokens instead of {n}")
    except Exception as error:
        if case.sound and case.unmasked:
            return None
        cause = f"{error_line(error).partition(',')[0] or 'it'} raises {type(error).__name__}"
        return Verdict("✗", "It fails on fewer tokens", f"with {n - 1}, {failure(error)}", cause)


def on_a_batch(case):
    """Whether a sentence has the same rows next to others in a batch."""
    x, rows = case.call.x, case.call.rows
    if not case.sound:
        return None
    if x.ndim == 2:
        return Verdict("✓", "It takes one sentence at a time", "(num_tokens, d_in)")
    try:
        with torch.no_grad():
            made = case.call.output(torch.cat((x.flip(1), x, -x, 2 * x)))  # x isn't first, last or in the middle
        gap = max_difference(made.reshape(4, *rows.shape)[1], rows)
    except Exception as error:
        return Verdict("✗", "It fails on a batch of sentences", failure(error))
    if gap > max(1e-4, 8 * torch.finfo(rows.dtype).eps) * max(1.0, rows.abs().max()):
        return Verdict("✗", "Sentences of a batch mix", f"next to other sentences, a row moves by {gap:.2g}")
    return Verdict("✓", "Sentences of a batch stay apart", "next to three others, a sentence has the same rows")


def on_tokens_first(case):
    words = (
        "(num_tokens, b, d_in), as nn.MultiheadAttention without batch_first=True; else each token reads only itself"
    )
    return Verdict("•", "It takes the tokens first", words) if case.call.tokens_first else None


MEASURES = {  # by topic, the weightiest first
    "returned": on_returned_weights,
    "unregistered": on_unregistered,
    "state": on_state,
    "chance": on_chance,
    "nan": on_nan,
    "future": on_the_future,
    "training": on_training,
    "past": on_the_past,
    "sums": on_row_sums,
    "unused": on_unused,
    "gradients": on_gradients,
    "course": on_the_course,
    "first": on_tokens_first,
    "fewer": on_fewer_tokens,
    "batch": on_a_batch,
}


AT_OTHER_SIZES = "nan", "future", "past", "sums", "unused", "course"  # what depends on them


def judge(case, topics=tuple(MEASURES)):
    """The Verdicts on a layer by topic, the weightiest first."""
    said = {}
    for topic in topics:
        try:
            said[topic] = MEASURES[topic](case)
        except Exception as error:
            said[topic] = Verdict("?", f"Couldn't measure it ({topic})", failure(error))
    course = said.get("course")
    if course and course.sign == "✓" and any(each and each.sign == "✗" for each in said.values()):
        del said["course"]
    return {topic: verdict for topic, verdict in said.items() if verdict}
