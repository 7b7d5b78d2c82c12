// The explorers of the reading site. A page holds an explorer's states as trees that share their equal parts, and a
// control chooses one (tools/notebooks/trees.py). Without this script, the page shows one of them and no controls.
"use strict";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const FRAME = 140, QUIET = 400; // milliseconds that a picture stays when playing, and before a headline is read aloud
const SVG = "http://www.w3.org/2000/svg";

class Live {
    constructor(box, name) {
        this.name = name;
        this.part = (kind) => box.querySelector(`.live-${kind}`);
        this.data = JSON.parse(box.querySelector("script").textContent);
        const { nodes, tags, states } = this.data;
        this.node = (found) => (typeof found === "number" ? nodes[found] : found);
        this.tag = (node) => (typeof node === "string" ? [null, {}] : tags[node[0]]);
        this.view = this.part("view");
        this.inputs = [...box.querySelectorAll("label > select, label > input")];
        this.state = this.node(states[this.place]);
        this.part("controls").hidden = false;
        this.inputs.forEach((input) => input.addEventListener("input", () => this.moved(input)));
        const asked = this.open();
        if (this.data.trials) this.prepare(asked);
        if (asked) box.scrollIntoView();
    }

    /** This state's address: what stands behind the page's #, with the controls' names and the labels of their values. */
    get address() {
        const shown = this.inputs.map((input, n) => [this.data.controls[n].name, this.data.controls[n].values[input.value]]);
        return `#${this.name}?${new URLSearchParams(shown)}`;
    }

    /** Open the state that the address asks for, if there's one; an address that doesn't fit opens the first. */
    open() {
        const [name, asked] = location.hash.split("?");
        if (name !== `#${this.name}`) return false;
        const values = new URLSearchParams(asked);
        const places = this.data.controls.map((control) => control.values.indexOf(values.get(control.name)));
        if (!places.includes(-1)) this.inputs.forEach((input, n) => (input.value = places[n]));
        this.draw();
        return true;
    }

    get place() {
        return this.inputs.reduce((place, input, n) => place * this.data.controls[n].values.length + +input.value, 0);
    }

    /** A new element or text for a node: a text, or a list of a tag's number and the children, some by number. */
    made(node, parent) {
        const [name, attributes] = this.tag(node);
        if (!name) return new Text(node);
        const element = document.createElementNS(name === "svg" ? SVG : parent.namespaceURI, name);
        for (const key in attributes) element.setAttribute(key, attributes[key]);
        element.append(...node.slice(1).map((child) => this.made(this.node(child), element)));
        return element;
    }

    /** Change an element that shows one node so that it shows another. On a phone, all that stays saves time. */
    morph(element, last, next) {
        if (last === next) return;
        const [[kind, old], [name, now]] = [this.tag(last), this.tag(next)];
        if (!name || kind !== name) return element.replaceWith(this.made(next, element.parentNode));
        for (const key in now) if (old[key] !== now[key]) element.setAttribute(key, now[key]);
        for (const key in old) if (!(key in now)) element.removeAttribute(key);
        this.fill(element, ...[last, next].map((node) => node.slice(1).map(this.node)));
    }

    /** The same for its children. If some come or go, those at both ends stay that have a tag or a place in common. */
    fill(element, before, after) {
        const nodes = [...element.childNodes], same = before.length === after.length;
        if (nodes.length !== before.length) // the browser translated the page
            return element.replaceChildren(...after.map((child) => this.made(child, element)));
        const alike = ([kind, a], [name, b]) => a === b || (kind === name && "x" in a && a.x === b.x && a.y === b.y);
        const stays = (i, j) => same || alike(this.tag(before[i]), this.tag(after[j]));
        let [i, from, to] = [0, before.length, after.length];
        while (i < from && i < to && stays(i, i)) i += 1;
        while (i < from && i < to && stays(from - 1, to - 1)) [from, to] = [from - 1, to - 1];
        after.slice(i, to).forEach((child) => element.insertBefore(this.made(child, element), nodes[from] ?? null));
        nodes.slice(i, from).forEach((node) => node.remove());
        after.slice(0, i).forEach((child, n) => this.morph(nodes[n], before[n], child));
        after.slice(to).forEach((child, n) => this.morph(nodes[from + n], before[from + n], child));
    }

    draw() {
        const { controls, states, trials } = this.data;
        const last = this.state;
        this.state = this.node(states[this.place]);
        this.morph(this.view, last, this.state);
        this.inputs.forEach((input, n) => {
            if (input.type !== "range") return;
            const label = controls[n].values[input.value];
            input.setAttribute("aria-valuetext", label);
            input.nextElementSibling.textContent = label;
        });
        if (!trials) return;
        const [trial, step] = this.inputs;
        this.part("following").hidden = +trial.value + 1 >= trials || step.value !== step.max;
    }

    /** Once the hand rests, read the headline aloud, and write where this state can be found again. */
    say() {
        clearTimeout(this.saying);
        this.saying = setTimeout(() => {
            history.replaceState(null, "", this.address);
            const said = this.view.querySelectorAll(".live-note, .attention-headline");
            this.part("said").textContent = [...said].map((each) => each.textContent).join(" ");
        }, QUIET);
    }

    moved(input) {
        if (this.data.trials) {
            const [trial, step] = this.inputs;
            this.play(false);
            if (input === trial) step.value = 0;
        }
        this.draw();
        this.say();
    }

    /** The playground: it waits for Play, but on the front page plays by itself once it's seen, and rests while it isn't. */
    prepare(asked) {
        const [trial, step] = this.inputs;
        this.part("play").addEventListener("click", () => {
            if (!this.wanted && step.value === step.max) step.value = 0;
            this.play(!this.wanted);
            if (!this.wanted) this.say();
        });
        this.part("following").addEventListener("click", () => {
            trial.value = +trial.value + 1;
            this.moved(trial);
            this.part("play").focus();
        });
        const front = document.querySelector(".doors");
        if (!asked && !(front && CALM.matches)) {
            trial.value = step.value = 0;
            this.draw();
            this.play(front);
        }
        const seen = ([{ isIntersecting }]) => {
            this.seen = isIntersecting;
            this.next();
        };
        new IntersectionObserver(seen, { rootMargin: "-15% 0px" }).observe(this.view); // its middle, not just an edge
    }

    play(wanted) {
        this.wanted = Boolean(wanted);
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

const count = {};
document.querySelectorAll(".live").forEach((box) => {
    const kind = box.classList[1];
    count[kind] = (count[kind] ?? 0) + 1;
    new Live(box, count[kind] > 1 ? `${kind}-${count[kind]}` : kind);
});

const words = document.querySelectorAll("code.literal");
words.forEach((code) => code.classList.toggle("short", code.textContent.length < 25)); // it stays on one line
