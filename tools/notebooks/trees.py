"""Pages of HTML as trees that share their equal parts: few bytes, and quick to compare. static/live.js reads them.

A node is a text, or a list of a tag's number and of the children, which are nodes or the number of a shared node.
"""

from collections import Counter
from xml.etree import ElementTree


class Trees:
    """The trees of pages. Each part has a number, and equal parts have the same one."""

    def __init__(self):
        self.tags, self.numbers, self.roots = {}, {}, []

    def add(self, page):
        """Add a page, which is one element, and XML too."""
        self.roots.append(self.number(ElementTree.fromstring(page)))

    def number(self, element):
        """The number of an element, after those of the elements in it."""
        part = [self.tags.setdefault((element.tag, *element.items()), len(self.tags)), element.text]
        for child in element:
            part += [self.number(child), child.tail]
        part = tuple(each for each in part if each is not None)
        return self.numbers.setdefault(part, len(self.numbers))

    def packed(self):
        """The trees for JSON: tags by number, shared nodes by number, and a node for each page."""
        parts = [*self.numbers]
        used = Counter([*self.roots, *(child for part in parts for child in part[1:] if isinstance(child, int))])
        shared = {number: place for place, number in enumerate(n for n in used if used[n] > 1)}

        def written(n):
            return n if isinstance(n, str) else shared[n] if n in shared else whole(n)

        def whole(n):
            return [parts[n][0], *map(written, parts[n][1:])]

        tags = [[name, dict(attributes)] for name, *attributes in self.tags]
        return {"tags": tags, "nodes": [whole(n) for n in shared], "states": [written(n) for n in self.roots]}
