"""Explorers: one a lesson. Move a control, and the layers that the lesson shows compute the picture anew."""

from .costing import CostExplorer
from .dropping import DropoutExplorer
from .layering import LayerExplorer
from .learning import LearningExplorer
from .masking import MaskExplorer
from .playground import Playground
from .qkv import QKVExplorer
from .reading import ReadingExplorer
from .scores import ScoresExplorer
from .splitting import SplitExplorer
from .stacking import WrapperExplorer
from .typed import TextExplorer
from .variants import VariantsExplorer

__all__ = [
    "CostExplorer",
    "DropoutExplorer",
    "LayerExplorer",
    "LearningExplorer",
    "MaskExplorer",
    "Playground",
    "QKVExplorer",
    "ReadingExplorer",
    "ScoresExplorer",
    "SplitExplorer",
    "TextExplorer",
    "VariantsExplorer",
    "WrapperExplorer",
]
