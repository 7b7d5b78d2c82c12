// What the page's explorers show: trees, most of which is alike from one state to the next (tools/notebooks/trees.py).
// Only what differs is changed, because on a phone the rest would take longer: parsing, style, layout and paint.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

/** What the ends of two lists have in common at most, in order: by the indices that the ends begin at. */
function common(before, after, alike) {
    const most = [...before, null].map(() => new Uint16Array(after.length + 1));
    for (let i = before.length - 1; i >= 0; i--)
        for (let j = after.length - 1; j >= 0; j--)
            most[i][j] = Math.max(most[i + 1][j], most[i][j + 1], most[i + 1][j + 1] + alike(before[i], after[j]));
    return most;
}

class Trees {
    /** A node is a text, or a list of a tag's number and its children, which are nodes or a shared node's number. */
    constructor({ tags, nodes }) {
        this.node = (found) => (typeof found === "number" ? nodes[found] : found);
        this.tag = (node) => (typeof node === "object" && tags[node[0]]) || [null, {}];
    }

    /** How well an element's node goes over into another: those of a grid of cells best where they stand. */
    alike = (last, next) => {
        const [[kind, from], [name, to]] = [this.tag(last), this.tag(next)];
        return kind !== name ? 0 : from.x === to.x && from.y === to.y ? 2 : 1;
    };

    /** Bring an element from one node to another. */
    morph(element, last, next) {
        if (last === next) return;
        const [[kind, old], [name, now]] = [this.tag(last), this.tag(next)];
        if (kind !== name) element.replaceWith(this.made(next, element.parentNode));
        else if (!name && element.nodeName !== "#text") element.replaceWith(next); // the browser translated the page
        else if (!name) element.data = next;
        else {
            for (const key in now) if (old[key] !== now[key]) element.setAttribute(key, now[key]);
            for (const key in old) if (!(key in now)) element.removeAttribute(key);
            this.fill(element, last, next);
        }
    }

    /** Bring an element's children from those of one node to those of another. */
    fill(element, last, next) {
        const [before, after] = [last, next].map((node) => node.slice(1).map(this.node));
        const nodes = [...element.childNodes];
        if (nodes.length !== before.length) { // translated
            element.replaceChildren(...after.map((node) => this.made(node, element)));
            return;
        }
        let most; // needed only where children come or go
        for (let i = 0, j = 0; i < before.length || j < after.length; ) {
            const stays = i < before.length && j < after.length && this.alike(before[i], after[j]) === 2;
            if (!stays) most ??= common(before, after, this.alike);
            if (!stays && i < before.length && most[i][j] === most[i + 1][j]) nodes[i++].remove();
            else if (!stays && j < after.length && most[i][j] === most[i][j + 1])
                element.insertBefore(this.made(after[j++], element), nodes[i] ?? null);
            else this.morph(nodes[i], before[i++], after[j++]);
        }
    }

    made(node, parent) {
        const [name, attributes] = this.tag(node);
        if (!name) return new Text(node);
        const element = document.createElementNS(name === "svg" ? SVG : parent.namespaceURI, name);
        for (const key in attributes) element.setAttribute(key, attributes[key]);
        for (const child of node.slice(1)) element.append(this.made(this.node(child), element));
        return element;
    }
}
