"""Draw data/playground.svg, which the playground shows while PyTorch is loading: two heads that have learned.

Usage: python -m tools.notebooks.first_picture
"""

from attention_helpers.explorers.playground.door import PICTURE
from attention_helpers.explorers.playground.explorer import PlaygroundExplorer

STEPS = 60


def drawn():
    """The picture, as SVG on white."""
    explorer = PlaygroundExplorer()
    explorer.set(num_heads=2)
    explorer.run(STEPS)
    return explorer._repr_mimebundle_()["image/svg+xml"]


if __name__ == "__main__":
    PICTURE.write_text(drawn(), encoding="utf-8")
