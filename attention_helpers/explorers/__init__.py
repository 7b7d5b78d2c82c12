"""Explorers: one a lesson. Move a control, and the layers that the lesson shows compute the picture anew."""

from .dropping import DropoutExplorer
from .masking import MaskExplorer
from .qkv import QKVExplorer
from .scores import ScoresExplorer
from .splitting import SplitExplorer
from .stacking import WrapperExplorer

__all__ = ["DropoutExplorer", "MaskExplorer", "QKVExplorer", "ScoresExplorer", "SplitExplorer", "WrapperExplorer"]
