"""The exercises of notebook 08."""

from ..base import Progress
from .costs import counting, three_in_one
from .steps import block_by_block, step_with_cache

EXERCISES = [three_in_one, counting, step_with_cache, block_by_block]
progress = Progress(EXERCISES)
