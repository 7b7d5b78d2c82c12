"""Explorers, one per lesson. Move a control, and the lesson's own layers compute the picture again."""
# ruff: noqa: F401

from .a_real_model import ReadingExplorer
from .causal_masking import MaskExplorer
from .dot_product_scores import ScoresExplorer
from .dropout import DropoutExplorer
from .layer import LayerExplorer
from .multi_head_stacking import WrapperExplorer
from .multi_head_weight_splits import SplitExplorer
from .past_the_training_length import LengthExplorer
from .playground import Playground
from .real_bugs import SuspectsExplorer
from .several_machines import MachinesExplorer
from .the_big_matrix import CostExplorer
from .the_kv_cache import CacheExplorer
from .the_loss_and_the_leak import TextExplorer
from .trainable_qkv import KeyWidthExplorer, QKVExplorer, ScalingExplorer
from .watch_attention_learn import LearningExplorer
from .what_models_keep import ModelsExplorer

__all__ = sorted(name for name in globals() if name[0].isupper())
