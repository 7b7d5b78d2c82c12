"""Exercises that answer back, one module per lesson.

A notebook imports one: `from attention_course.exercises import dot_product_scores as practice`.

Each exercise lists the mistakes that learners make, with the reply to each: most are edits of its solution, the others
functions or classes.
"""

import importlib

from .reply import Reply

# The modules, in the lessons' order; each is called like its notebook.
MODULES = {
    "01": "dot_product_scores",
    "02": "trainable_qkv",
    "03": "causal_masking",
    "04": "dropout",
    "05": "multi_head_stacking",
    "06": "multi_head_weight_splits",
    "07": "watch_attention_learn",
    "08": "the_loss_and_the_leak",
    "09": "the_big_matrix",
    "10": "the_kv_cache",
    "11": "past_the_training_length",
    "12": "what_models_keep",
    "13": "a_real_model",
    "14": "several_machines",
    "15": "real_bugs",
    "16": "published_numbers",
}


def practice(number):
    """The module with a lesson's exercises; number: a key of MODULES."""
    return importlib.import_module(f"{__name__}.{MODULES[number]}")


def progress():
    """How many exercises the learner has solved in the whole course, as a table with a row for each lesson.

    What counts is what record.py keeps in the workbook, and what was right in this kernel. Errors: none.
    """
    lessons = {number: practice(number).progress for number in MODULES}
    done, total = (sum(getattr(lesson, count) for lesson in lessons.values()) for count in ("done", "total"))
    rows = [f"| {number} | {lesson.done} of {lesson.total} |" for number, lesson in lessons.items()]
    said = f"**{done} of {total} exercises done.**" if done else f"**None of the {total} exercises is done yet.**"
    return Reply(None, "\n".join([said, "", "| notebook | done |", "| --- | --- |", *rows]))
