"""Draw what the playground shows first: data/playground.html, until PyTorch is loaded, and data/playground.svg.

Usage: python -m tools.notebooks.first_picture
"""

import re

from attention_course.explorers.playground.door import PAGE, PICTURE
from attention_course.explorers.playground.explorer import PlaygroundExplorer

LARGE = 1.4  # nearly as on a wide page, so that little moves when it comes to life, and not cut off on a small one


def drawn():
    """The page with its looks, and the picture on white."""
    explorer = PlaygroundExplorer()
    page, picture = explorer.children[-1].value + explorer.view.value, explorer._repr_mimebundle_()["image/svg+xml"]
    sides = lambda found: f'{found[1]}="{LARGE * int(found[2]):.0f}"'  # noqa: E731
    return page, re.sub(r'\b(width|height)="(\d+)"', sides, picture, count=2)


if __name__ == "__main__":
    for file, content in zip((PAGE, PICTURE), drawn(), strict=True):
        file.write_text(content, encoding="utf-8")
