// The explorers of the reading site. A page holds an explorer's states as lists of shared pieces of HTML: each is a tag
// and the text after it. A control chooses a state, and the picture is changed where it differs: the rest of it needs no
// style, layout or paint again. Without this script, the page shows one of the states and no controls.
"use strict";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const FRAME = 140, QUIET = 400; // milliseconds that a picture stays when playing, and before a headline is read aloud
const SVG = "http://www.w3.org/2000/svg";

/** A text or an attribute's value without its character references, such as &amp;. */
function plain(code) {
    return code.includes("&") ? new DOMParser().parseFromString(code, "text/html").documentElement.textContent : code;
}

/** A picture that goes from one state to the next. */
class Picture {
    constructor(view, { pieces, states }, place) {
        Object.assign(this, { view, pieces, states, known: [] });
        this.shown = this.tree(place);
    }

    /** A piece's parts; Picture finds those of each piece once. */
    static parsed(code) {
        const [, end, name, rest, text] = /^<(\/?)(\w+)([^>]*)>([^]*)$/.exec(code);
        const given = [...rest.matchAll(/([\w:-]+)="([^"]*)"/g)].map(([, key, value]) => [key, plain(value)]);
        return { end, name, empty: rest.endsWith("/"), attributes: Object.fromEntries(given), text: plain(text) };
    }

    /** A state as a tree: a node has its name, attributes and children, or its text. */
    tree(place) {
        const open = [[]];
        for (const piece of this.states[place]) {
            const { end, name, empty, attributes, text } = (this.known[piece] ??= Picture.parsed(this.pieces[piece]));
            const children = [];
            if (end) open.pop();
            else open.at(-1).push({ name, attributes, children });
            if (!end && !empty) open.push(children);
            if (text) open.at(-1).push({ name: "", text });
        }
        return open[0];
    }

    show(place) {
        this.change(this.view, this.shown, (this.shown = this.tree(place)));
    }

    /** Give an element the children of one tree, when it has those of another. */
    change(parent, before, after) {
        let node = parent.firstChild;
        after.forEach((next, n) => {
            let last = before[n];
            if (last?.name !== next.name) {
                const space = next.name === "svg" ? SVG : parent.namespaceURI;
                const added = next.name ? document.createElementNS(space, next.name) : document.createTextNode("");
                node ? node.replaceWith(added) : parent.append(added);
                [node, last] = [added, { children: [] }];
            }
            const [was, is] = [last.attributes ?? {}, next.attributes ?? {}]; // what a reader opened isn't among them
            if (was !== is) {
                for (const name in is) if (was[name] !== is[name]) node.setAttribute(name, is[name]);
                for (const name in was) if (!(name in is)) node.removeAttribute(name);
            }
            if (next.name) this.change(node, last.children, next.children);
            else if (last.text !== next.text) node.data = next.text;
            node = node.nextSibling;
        });
        before.slice(after.length).forEach(() => parent.lastChild.remove());
    }
}

class Live {
    constructor(box) {
        this.part = (kind) => box.querySelector(`.live-${kind}`);
        this.data = JSON.parse(box.querySelector("script").textContent);
        this.view = this.part("view");
        this.inputs = [...box.querySelectorAll("label > select, label > input")];
        this.picture = new Picture(this.view, this.data, this.place);
        this.part("controls").hidden = false;
        this.inputs.forEach((input) => input.addEventListener("input", () => this.moved(input)));
        if (this.data.plays) this.prepare(box);
    }

    get place() {
        return this.inputs.reduce((place, input, n) => place * this.data.controls[n].values.length + +input.value, 0);
    }

    draw() {
        const { fails, controls } = this.data;
        const place = this.place;
        this.picture.show(place);
        this.inputs.forEach((input, n) => {
            if (input.type !== "range") return;
            const label = controls[n].values[input.value];
            input.setAttribute("aria-valuetext", label);
            input.nextElementSibling.textContent = label;
        });
        if (this.data.plays) this.part("remedy").classList.toggle("live-wanted", fails.includes(place));
    }

    /** Read the headline aloud, once the hand rests. */
    say() {
        clearTimeout(this.saying);
        this.saying = setTimeout(() => {
            const said = this.view.querySelectorAll(".live-note, .attention-headline");
            this.part("said").textContent = [...said].map((each) => each.textContent).join(" ");
        }, QUIET);
    }

    moved(input) {
        const [run, step] = this.inputs;
        if (this.data.plays && input === step) this.play(false);
        if (this.data.plays && input === run && !CALM.matches) {
            step.value = 0;
            this.play(true);
        }
        this.draw();
        this.say();
    }

    /** The playground: it plays once it's seen, and rests while it isn't. */
    prepare(box) {
        const [run, step] = this.inputs;
        this.part("play").addEventListener("click", () => {
            if (!this.wanted && step.value === step.max) step.value = 0;
            this.play(!this.wanted);
            if (!this.wanted) this.say();
        });
        this.part("remedy").addEventListener("click", () => {
            run.value = 1;
            step.value = CALM.matches ? step.max : 0;
            this.play(!CALM.matches);
            this.draw();
            this.say();
            this.part("play").focus();
        });
        this.part("remedy").classList.remove("live-wanted");
        if (!CALM.matches) {
            run.value = step.value = 0;
            this.draw();
            this.play(true);
        }
        const seen = ([{ isIntersecting }]) => {
            this.seen = isIntersecting;
            this.next();
        };
        // Where its middle is on the page, not just an edge.
        new IntersectionObserver(seen, { rootMargin: "-15% 0px" }).observe(this.view);
    }

    play(wanted) {
        this.wanted = wanted;
        this.part("play").textContent = wanted ? "Pause" : "Play";
        this.next();
    }

    next() {
        clearTimeout(this.timer);
        if (this.wanted && this.seen) this.timer = setTimeout(() => this.step(), FRAME);
    }

    step() {
        const step = this.inputs[1];
        step.value = +step.value + 1;
        this.draw();
        if (step.value === step.max) {
            this.play(false);
            this.say();
        }
        this.next();
    }
}

document.querySelectorAll(".live").forEach((box) => new Live(box));
