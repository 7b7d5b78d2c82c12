"""Explorers, one per lesson. Move a control, and the lesson's own layers compute the picture again.

An explorer's module is imported when its name is first used; `__init__.pyi` says where each name comes from.
"""

from attention_helpers import _later

__all__, __getattr__, __dir__ = _later.on_first_use(__name__, __file__)
