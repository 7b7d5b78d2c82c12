"""Pages of HTML as trees that share their equal parts: few bytes, and quick to compare. static/live.js reads them.

A node is a text, or a list of a tag's number and of the children, which are nodes or the number of a shared node.
"""

import html
import re
from collections import Counter

TAG = re.compile(r"<(/?)(\w+)([^>]*?)(/?)>([^<]*)")
ATTRIBUTE = re.compile(r'([^\s=]+)="([^"]*)"')


class Trees:
    """The trees of pages. Each part has a number, and equal parts have the same one."""

    def __init__(self):
        self.tags, self.numbers, self.roots = {}, {}, []

    def add(self, page):
        """Add a page, which is one element."""
        path = [self.roots]
        for ends, name, attributes, empty, words in TAG.findall(page):
            if not ends:
                path.append([self.tags.setdefault((name, attributes.strip()), len(self.tags))])
            if ends or empty:
                part = tuple(path.pop())
                path[-1].append(self.numbers.setdefault(part, len(self.numbers)))
            if words:
                path[-1].append(html.unescape(words))

    def packed(self):
        """The trees for JSON: tags by number, shared nodes by number, and a node for each page."""
        parts = [*self.numbers]
        used = Counter([*self.roots, *(child for part in parts for child in part[1:] if isinstance(child, int))])
        shared = {number: place for place, number in enumerate(n for n in used if used[n] > 1)}

        def written(n):
            return n if isinstance(n, str) else shared[n] if n in shared else whole(n)

        def whole(n):
            return [parts[n][0], *map(written, parts[n][1:])]

        pairs = ((name, ATTRIBUTE.findall(words)) for name, words in self.tags)
        tags = [[name, {key: html.unescape(value) for key, value in attributes}] for name, attributes in pairs]
        return {"tags": tags, "nodes": [whole(n) for n in shared], "states": [written(n) for n in self.roots]}


def unpacked(found, node):
    """HTML of a node of what `Trees.packed` returned."""
    if isinstance(node, str):
        return html.escape(node, quote=False)
    number, *children = found["nodes"][node] if isinstance(node, int) else node
    name, attributes = found["tags"][number]
    words = "".join(f' {key}="{html.escape(value)}"' for key, value in attributes.items())
    return f"<{name}{words}>{''.join(unpacked(found, child) for child in children)}</{name}>"
