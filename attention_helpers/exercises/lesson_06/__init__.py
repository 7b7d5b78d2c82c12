"""The exercises of notebook 06."""

from ..base import Progress
from .classes import from_an_empty_cell, repair
from .heads import gpt2_size, merging, splitting, transplanting

EXERCISES = [splitting, merging, transplanting, gpt2_size, repair, from_an_empty_cell]
progress = Progress(EXERCISES)
