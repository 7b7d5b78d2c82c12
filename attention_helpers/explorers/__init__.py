"""Explorers: one a lesson. Move a control, and the layers that the lesson shows compute the picture anew."""

from .costing import CostExplorer
from .dropping import DropoutExplorer
from .learning import LearningExplorer
from .masking import MaskExplorer
from .qkv import QKVExplorer
from .reading import ReadingExplorer
from .scores import ScoresExplorer
from .splitting import SplitExplorer
from .stacking import WrapperExplorer
from .variants import VariantsExplorer

__all__ = [
    "CostExplorer",
    "DropoutExplorer",
    "LearningExplorer",
    "MaskExplorer",
    "QKVExplorer",
    "ReadingExplorer",
    "ScoresExplorer",
    "SplitExplorer",
    "VariantsExplorer",
    "WrapperExplorer",
]
