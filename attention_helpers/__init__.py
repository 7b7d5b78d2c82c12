"""The code that the attention notebooks share.

Importing it loads nothing yet: a name's module, and torch with it, is imported when the name is first used, and
`__init__.pyi` says where each name comes from. Figures are in `attention_helpers.plots`.
"""

from . import _later

__all__, __getattr__, __dir__ = _later.on_first_use(__name__, __file__)
