"""Explorers, one per lesson. Move a control, and the lesson's own layers compute the picture again."""

from .layer import LayerExplorer
from .lesson_01 import ScoresExplorer
from .lesson_02 import QKVExplorer
from .lesson_03 import MaskExplorer
from .lesson_04 import DropoutExplorer
from .lesson_05 import WrapperExplorer
from .lesson_06 import SplitExplorer
from .lesson_07 import LearningExplorer
from .lesson_07_text import TextExplorer
from .lesson_08 import CostExplorer
from .lesson_09 import VariantsExplorer
from .lesson_10 import ReadingExplorer
from .playground import Playground

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
