"""Explorers, one per lesson. Move a control, and the lesson's own layers compute the picture again."""

from .layer import LayerExplorer
from .lesson_01 import ScoresExplorer
from .lesson_02 import KeyWidthExplorer, QKVExplorer, ScalingExplorer
from .lesson_03 import MaskExplorer
from .lesson_04 import DropoutExplorer
from .lesson_05 import WrapperExplorer
from .lesson_06 import SplitExplorer
from .lesson_07 import LearningExplorer
from .lesson_08 import TextExplorer
from .lesson_09 import CostExplorer
from .lesson_10 import CacheExplorer
from .lesson_11 import LengthExplorer
from .lesson_12 import ModelsExplorer
from .lesson_13 import ReadingExplorer
from .lesson_14 import MachinesExplorer
from .playground import Playground

__all__ = [
    "CacheExplorer",
    "CostExplorer",
    "DropoutExplorer",
    "KeyWidthExplorer",
    "LayerExplorer",
    "LearningExplorer",
    "LengthExplorer",
    "MachinesExplorer",
    "MaskExplorer",
    "ModelsExplorer",
    "Playground",
    "QKVExplorer",
    "ReadingExplorer",
    "ScalingExplorer",
    "ScoresExplorer",
    "SplitExplorer",
    "TextExplorer",
    "WrapperExplorer",
]
