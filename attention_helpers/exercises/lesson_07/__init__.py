"""The exercises of notebook 07."""

from ..base import Progress
from .maps import how_much_too_low, map_to_come, too_few_heads
from .training import control_run, one_training_step

EXERCISES = [map_to_come, one_training_step, control_run, too_few_heads, how_much_too_low]
progress = Progress(EXERCISES)
