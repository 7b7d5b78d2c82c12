"""What the maps mean, and what a loss may hide."""

import torch
from torch import nn
from torch.nn import functional as F

from ...training.characters import CharacterModel, Characters
from ...training.lookup import LookupTask
from ..base import Exercise, Misconception


def question_row(x, answers, letters):
    """Weights (b, num_tokens) of the question, from x (b, num_tokens, 2) of a LookupTask."""
    return (x[:, :, 0] == x[:, -1:, 0] - letters).float()


def look_ups(generator):
    for letters, digits, pairs, b in ((10, 10, 6, 5), (8, 2, 8, 6), (26, 3, 4, 3), (5, 4, 1, 2)):
        x, answers = LookupTask(1, letters, digits, pairs, b).batch(generator)
        yield x, answers, letters


def shared_among_pairs_with_the_answer(x, answers, letters):
    with_the_answer = (x[:, :, 1] == answers + 3 * letters).float()
    return with_the_answer / with_the_answer.sum(dim=1, keepdim=True)


map_to_come = Exercise(
    name="map_to_come",
    title="The map to come",
    prompt="`x`, `answers` is a batch of a `LookupTask` with one question. Write the row of weights that a perfect "
    "head gives to the question's token: 1.0 on the pair asked for, 0.0 on all other tokens. In a pair "
    "a letter is a symbol below `letters`; in the question it is `letters` higher. Not every argument "
    "is needed.",
    solution=question_row,
    cases=lambda generator: list(look_ups(generator)),
    misconceptions=[
        Misconception(
            "takes the question's letter for the same symbol",
            lambda x, answers, letters: (x[:, :, 0] == x[:, -1:, 0]).float(),
            "Your question finds only itself. The same letter is another symbol in a pair than in the question.",
        ),
        Misconception(
            "looks for the answer",
            lambda x, answers, letters: (x[:, :, 1] == answers + 3 * letters).float(),
            "You look for the answer's digit, which may stand in several pairs. A head cannot look for what it does "
            "not know yet: the question holds a letter.",
        ),
        Misconception(
            "shares the weight among pairs with the answer",
            shared_among_pairs_with_the_answer,
            "Your weights are shared among all pairs with the right digit. Only one of them has the letter asked for.",
        ),
        Misconception(
            "leaves the question out",
            lambda x, answers, letters: question_row(x, answers, letters)[:, :-1],
            "The pairs' weights are right. But a row has a weight for every token, the question included.",
        ),
        Misconception(
            "gives the place of the pair",
            lambda x, answers, letters: question_row(x, answers, letters).argmax(dim=1),
            "These are the right places. Asked for are weights: a row for each sentence, with a 1 at that place.",
        ),
        Misconception(
            "takes the softmax of 0 and 1",
            lambda x, answers, letters: torch.softmax(question_row(x, answers, letters), dim=-1),
            "You found the right pair and then took a softmax: of ones and zeros it makes nearly even shares. "
            "Your ones and zeros were weights already.",
        ),
    ],
    hints=[
        "What does the question's token know: a letter or a digit? Which tokens hold the same?",
        "`x[:, :, 0]` holds the letters, the question's at the end. Which symbol is that letter in a pair?",
        "Compare `x[:, :, 0]` with `x[:, -1:, 0] - letters`. `.float()` makes weights of True and False.",
    ],
    why="No letter stands in two pairs, so each row has a single 1 and sums to 1, as softmax rows do. The "
    "question's own symbol is never below `letters`, so it does not find itself. The answer is not needed: where to "
    "look does not depend on it.",
    moral="The trained head's last row comes close to this one, though training told it only the answers.",
)


def right_answers(shares, digits, values, output_layer):
    """How often each answer is right, (2,); shares (num_heads, 2), digits (b, 2)."""
    contexts = shares @ values[digits]  # (num_heads, 2) @ (b, 2, width) -> (b, num_heads, width)
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=0)


def read_outs(generator):
    """One head and more, read out at random, and then by the identity."""
    for num_heads, b, n, width in ((1, 60, 4, 3), (2, 50, 3, 5), (3, 40, 5, 2), (1, 5, 1, 2)):
        output_layer = nn.Linear(num_heads * width, 2 * n)
        for parameter in output_layer.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        digits = torch.randint(n, (b, 2), generator=generator)
        shares = torch.rand(num_heads, 2, generator=generator)
        yield shares, digits, torch.randn(n, width, generator=generator), output_layer
    for shares in ([[0.7, 0.3]], [[1.0, 0.0], [0.0, 1.0]]):
        output_layer = nn.Linear(6 * len(shares), 12)
        output_layer.weight.data = torch.eye(6).repeat(2, 1) if len(shares) == 1 else torch.eye(12)
        output_layer.bias.data = torch.linspace(0, 0.01, 12)  # so that no scores are equal
        digits = torch.cartesian_prod(torch.arange(6), torch.arange(6))
        yield torch.tensor(shares), digits, torch.eye(6), output_layer


def values_unmixed(shares, digits, values, output_layer):
    scores = output_layer(values[digits].flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=0)


def columns_for_heads(shares, digits, values, output_layer):
    contexts = shares.T @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=0)


def heads_taking_turns(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.transpose(1, 2).flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=0)


def questions_taking_turns(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), -1, 2)
    return (scores.argmax(dim=1) == digits).float().mean(dim=0)


def answers_in_any_order(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    guesses = scores.argmax(dim=-1)  # (b, 2)
    return (guesses.unsqueeze(2) == digits.unsqueeze(1)).any(dim=2).float().mean(dim=0)


def sentences_with_both_right(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).all(dim=1).float().mean()


def averaged_over_the_questions(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean(dim=1)


def averaged_over_everything(shares, digits, values, output_layer):
    contexts = shares @ values[digits]
    scores = output_layer(contexts.flatten(1)).view(len(digits), 2, -1)
    return (scores.argmax(dim=-1) == digits).float().mean()


too_few_heads = Exercise(
    name="too_few_heads",
    title="Too few heads",
    prompt="A row of `digits` holds the two digits that a sentence asks for; a digit's value is its row of "
    "`values`, (n, width), in all heads. `shares[h]` is how much of either value head h hands out. The "
    "layer `output_layer` takes the contexts side by side and gives n scores for the first answer, then n "
    "for the second. How often is each answer right?",
    solution=right_answers,
    cases=lambda generator: list(read_outs(generator)),
    misconceptions=[
        Misconception(
            "hands out the values unmixed",
            values_unmixed,
            "You give the read-out both values, one beside the other. Heads hand out mixtures, one each.",
        ),
        Misconception(
            "exchanges heads and pairs",
            columns_for_heads,
            "You use a column of `shares` for a head. A row is a head: its shares of the first and the second digit.",
        ),
        Misconception(
            "lets the heads take turns",
            heads_taking_turns,
            "Your heads take turns in the context. All entries of the first head should come first.",
        ),
        Misconception(
            "lets the questions take turns",
            questions_taking_turns,
            "You deal the scores out in turns. The first n of them belong to the first answer.",
        ),
        Misconception(
            "takes the answers in any order",
            answers_in_any_order,
            "You count a digit as right wherever it was asked for. The order matters: first answer, first digit.",
        ),
        Misconception(
            "counts sentences with both right",
            sentences_with_both_right,
            "You count the sentences with both answers right. Count each answer by itself: two numbers.",
        ),
        Misconception(
            "averages over the questions",
            averaged_over_the_questions,
            "You give a number a sentence. Average over the sentences: one number for each of the two answers.",
        ),
        Misconception(
            "averages over everything",
            averaged_over_everything,
            "One number hides what this is about: which of the two answers is lost. Give a number for each.",
        ),
    ],
    hints=[
        "`values[digits]` has the shape (b, 2, width). Which product mixes its two rows, once for each head?",
        "`shares @ values[digits]` is (b, num_heads, width). `flatten(1)` puts the heads side by side.",
        "`output_layer(...).view(len(digits), 2, -1).argmax(dim=-1)` guesses. Compare with `digits`, take the mean.",
    ],
    why="Take one head with shares w and 1 - w, and the second answer's scores: in (a, a) digit a leads by "
    "some p, in (b, b) b by some q. All is linear, so in (a, b) b leads by (1 - w)q - wp, in (b, a) a by "
    "(1 - w)p - wq. Both are above 0 only if their sum (1 - 2w)(p + q) is: if w < 1/2. The first answer "
    "needs w > 1/2.",
    moral="Ask for all pairs of digits with one head, `[[0.7, 0.3]]`: whatever values and linear read-out you "
    "take, some answer is wrong. With two heads, `torch.eye(2)`, all can be right.",
)


def too_low_by(model, x, targets):
    """By how many nats the usual loss is lower than the honest one; x, targets (b, num_tokens)."""
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def small_models(generator):
    for leaky, b, n, window in ((True, 4, 6, 6), (False, 3, 5, 5), (True, 5, 3, 7), (True, 1, 2, 2)):
        model = CharacterModel(Characters("abcde" * 9, window, held_out=20), 8, 2, 6, leaky=leaky).eval()
        for parameter in model.parameters():
            parameter.data = 0.7 * torch.randn(parameter.shape, generator=generator)
        x, targets = torch.randint(5, (2, b, n), generator=generator)
        yield model, x, targets


def with_the_whole_window(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x)[:, n - 1], targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def with_the_future_as_zeros(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        cut = x.clone()
        cut[:, n:] = 0
        honest = honest + F.cross_entropy(model(cut)[:, n - 1], targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def averaged_over_each_prefix(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x[:, :n]).flatten(0, 1), targets[:, :n].flatten())
    return (honest / x.shape[1] - usual).item()


def of_the_longest_prefix(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = F.cross_entropy(model(x)[:, -1], targets[:, -1])
    return (honest - usual).item()


def without_the_past(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x[:, n - 1 : n])[:, -1], targets[:, n - 1])
    return (honest / x.shape[1] - usual).item()


def with_the_target_after_next(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1]):
        honest = honest + F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n])
    return (honest / (x.shape[1] - 1) - usual).item()


def honest_loss(model, x, targets):
    honest = 0.0
    for n in range(1, x.shape[1] + 1):
        honest = honest + F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])
    return (honest / x.shape[1]).item()


def without_the_longest_prefix(model, x, targets):
    usual = F.cross_entropy(model(x).flatten(0, 1), targets.flatten())
    honest = 0.0
    for n in range(1, x.shape[1]):
        honest = honest + F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])
    return (honest / (x.shape[1] - 1) - usual).item()


how_much_too_low = Exercise(
    name="how_much_too_low",
    title="How much too low?",
    prompt="`model`, in eval mode, scores the next character at every position of `x`; `targets` are the right "
    "ones. Return by how many nats the usual loss (all positions at once) is lower than the honest one: "
    "the mean, over all lengths n from 1 to num_tokens, of the loss at the end of a prefix of n "
    "characters. It can be negative.",
    solution=too_low_by,
    cases=lambda generator: list(small_models(generator)),
    misconceptions=[
        Misconception(
            "shows the model the whole window",
            with_the_whole_window,
            "Your model sees the whole window each time, so your honest loss is the usual one. What comes after a "
            "prefix must not be in what the model is given.",
        ),
        Misconception(
            "hides the future behind zeros",
            with_the_future_as_zeros,
            "You put the code 0 where the future was. But 0 is a character, and a leaky model reads it. Give it "
            "nothing after the prefix.",
        ),
        Misconception(
            "averages over the whole prefix",
            averaged_over_each_prefix,
            "You take the loss of all positions of each prefix. All but its last can see what comes next in it.",
        ),
        Misconception(
            "takes the longest prefix alone",
            of_the_longest_prefix,
            "You take the last position of the whole window. It is honest, but it is one length of many, and the "
            "only one at which a leaky model was trained honestly.",
        ),
        Misconception(
            "forgets the past",
            without_the_past,
            "You show the model one character at a time. The prefix before it is honest reading: leave it in.",
        ),
        Misconception(
            "takes the target after next",
            with_the_target_after_next,
            "You compare with the target after next. `targets` starts one on: which entry follows n characters?",
        ),
        Misconception(
            "subtracts the wrong way round",
            lambda model, x, targets: -too_low_by(model, x, targets),
            "Both losses are right, and the sign is not: how much *lower* than the honest loss is the usual one?",
        ),
        Misconception(
            "gives the honest loss",
            honest_loss,
            "That is the honest loss. How far below it is the usual one?",
        ),
        Misconception(
            "leaves out the longest prefix",
            without_the_longest_prefix,
            "You stop short of the whole window: it is a prefix as well. (`range` leaves its end out.)",
        ),
    ],
    hints=[
        "Two losses and a difference. For the honest one: what may the model see when it guesses character n + 1?",
        "A loop over n: `model(x[:, :n])[:, -1]` are the scores after n characters. Which column of `targets` is next?",
        "Average `F.cross_entropy(model(x[:, :n])[:, -1], targets[:, n - 1])` over n, then subtract the usual loss.",
    ],
    why="What follows a prefix is not in what the model is given, so no mask has to be trusted. With a mask "
    "that works, position n of the whole window sees that prefix and nothing else, so both losses agree up to "
    "rounding.",
    moral="About 0 for a model whose mask works; far above 0, the loss looked too good.",
)
