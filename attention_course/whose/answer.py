"""What `whose` says."""

from attention_course.exercises import MODULES

from .dropped import dropped_otherwise
from .numbers import read_numbers
from .recipes import ORDER
from .tables import Printed, computed, published

PAGE = "16_published_numbers.ipynb"
TOKENS = "Your", "journey", "starts", "with", "one", "step"
RESULTS = "weights", "context vectors", "output"
MOST = 4  # ways to the same numbers that are listed


class Answer(str):
    """Text that a notebook shows as Markdown."""

    def _repr_markdown_(self):
        return str(self)


def whose(numbers):
    """Say where numbers are printed, which step makes them, and what was done, if they aren't the chapter's.

    numbers: of chapter 3 of "Build a Large Language Model (From Scratch)", of a lesson like it, or of your own layer:
    a tensor, an array, nested lists, or text that shows them, such as what `print` wrote. A whole table, some of its
    rows, or one; of few numbers, or few digits, it says only what they could be. Returns text, shown as Markdown.
    Errors: none; if there's nothing to look for, the text says so.
    """
    try:
        given = read_numbers(numbers)
    except (ValueError, TypeError) as error:
        return Answer(error)
    except (RuntimeError, RecursionError) as error:  # such as a tensor without numbers
        return Answer(f"These numbers can't be read: {error}".splitlines()[0])
    if not given.count:
        return Answer("There's nothing but 0, 1 and infinity in that, as in every mask: give other rows, too.")
    printed = published().find(given)
    if len(given.flat) == 1:
        return Answer(one_alone(printed))
    fits = computed(1).find(given) or list(dropped_otherwise(given)) or computed(2).find(given)
    if not printed and not fits:
        return Answer(nothing_fits(given))
    sections = dict.fromkeys(map(where_printed, printed))
    return Answer("\n\n".join([*introduction(given), *sections, *ways(fits, given)]))


def one_alone(printed):
    """What to say of one number."""
    found = " ".join(where_printed(place) for place in printed)
    return f"One number alone could come from anywhere: give a row, or a table. {found}".strip()


def introduction(given):
    """A warning where chance could have met the numbers."""
    if not given.sure:
        yield "These digits say little, so this only **could be**:"


def where_printed(place):
    """The section of the appendix that prints them, as the chapter or a lesson does."""
    section = place.table.figure["section"]
    return f"**Printed** under [{section}]({PAGE}#{section.replace(' ', '-')}): {place.table.title}."


def ways(fits, given):
    """A paragraph for each of the shortest ways to get the numbers, and a word on mistakes that wouldn't show."""
    fits = [place for place in fits if is_whole(place, given)] or fits
    shortest = min((place.table.effort for place in fits), default=0)
    shown = {place.table: place for place in reversed(fits) if place.table.effort == shortest}
    if len(shown) > 1 and given.sure:
        yield "Each of these leads to the same digits:"
    for place in [*reversed(shown.values())][:MOST]:
        yield describe(place, given)
    if len(shown) > MOST:
        yield f"And {len(shown) - MOST} more ways, as short as these, lead to the same digits."
    if shortest == 0 and given.sure:
        yield from mistakes_that_do_not_show(fits)


def mistakes_that_do_not_show(fits):
    """Which mistakes lead to the same numbers as a right class."""
    tables = [place.table for place in fits if place.table.step in RESULTS and place.table.recipe]
    names = {table.recipe.mistake.name for table in tables if table.recipe.mistake}
    if names:
        yield f"(They can't be told from those of a class that {', or one that '.join(sorted(names)[:MOST])}.)"


def is_whole(place, given):
    """Whether a table, or its first sentence of two equal ones, was given completely."""
    sentences = 1 if place.table.recipe is None or place.table.step.startswith("W_") else 2
    return len(given.rows) in (place.count, place.count / sentences)


def describe(place, given):
    """How a table comes about, and what's wrong with it."""
    step, recipe, words, wrong = place.table
    row = ""
    if len(given.rows) == 1 and place.count % 6 == 0:
        row = f" (the row of “{TOKENS[place.row % 6]}”)"
    if recipe is None:
        return f"{'✗' if wrong else '✓'} The **{step}**{row} {words}."
    changes = "".join(f", {change}" for change in [*recipe.changes, words] if change)
    sentence = " on “the cat sleeps”" if recipe.d_in == 6 else ""
    layer = f"`{recipe.layer}({', '.join(map(str, recipe.sizes))})`{sentence}, seed {recipe.seed}{changes}"
    start = f"The **{step}**{row} of {layer}"
    if recipe.mistake:
        return f"✗ {start}, in a class that **{recipe.mistake.name}**. {recipe.mistake.reply} ({link(recipe.mistake)})"
    if changes:
        return (
            f"○ {start}. That isn't the chapter's way, but if it's what you did, the numbers are right.{unless(place)}"
        )
    return f"✓ {start}, as in the chapter.{unless(place)}"


def unless(place):
    """Which class computes the same numbers, although it's wrong."""
    step, recipe, *_ = place.table
    if recipe.layer == "SelfAttention_v2" and step in RESULTS:
        return " If yours is a causal class, it has lost its mask."
    if recipe.order != ORDER and step in RESULTS:
        return " If yours draws its matrices in the chapter's order, it takes one for another."
    if recipe.each and step in RESULTS:
        return " Set the seed once, before the layer. If you do, your class uses one matrix for all three."
    return ""


def link(mistake):
    """A link to the heading that settles a mistake."""
    number, _, anchor = mistake.heading.partition("#")
    return f"[{number}, *{anchor.replace('-', ' ')}*]({number}_{MODULES[number]}.ipynb#{anchor})"


def nothing_fits(given):
    """That nothing does, and if a table agrees in part, where the two part."""
    start = "Nothing fits: no table of the chapter and its lessons, nor what usual changes or mistakes make of one."
    found = [index.nearest(given) for index in (published(), computed(1))]
    agree, place = max(found, key=lambda near: sum(near[0]))
    if sum(agree) < len(agree) / 4 or not agree:
        return start
    row, column = divmod(agree.index(False), len(given.rows[0]))
    return (
        f"{start} The nearest is *{name_of(place.table)}*: {sum(agree)} of {len(agree)} numbers agree. They part in "
        f"row {row + 1}, column {column + 1}, where you have {given.rows[row][column]:g}."
    )


def name_of(table):
    """What a published or a computed table is called."""
    if isinstance(table, Printed):
        return table.title
    return f"{table.step} of {table.recipe.layer}, seed {table.recipe.seed}" if table.recipe else table.step
