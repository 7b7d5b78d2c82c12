// The explorers of the reading site. A page holds an explorer's states as lists of shared pieces of HTML. A control
// chooses a state, whose pieces are joined. Without this script, the page shows one of the states and no controls.
"use strict";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const FRAME = 140, QUIET = 400; // milliseconds that a picture stays when playing, and before a headline is read aloud

/** Give an element the children of another, changing only what differs: the rest needs no style, layout or paint. */
function morph(element, fresh) {
    const [before, after] = [[...element.childNodes], [...fresh.childNodes]];
    after.forEach((next, n) => {
        const last = before[n];
        if (last?.isEqualNode(next)) return;
        if (last?.nodeName !== next.nodeName) {
            last ? last.replaceWith(next) : element.append(next);
            return;
        }
        if (next.nodeType === Node.TEXT_NODE) last.data = next.data;
        for (const { name, value } of next.attributes ?? [])
            if (last.getAttribute(name) !== value) last.setAttribute(name, value);
        for (const { name } of [...(last.attributes ?? [])])
            if (!next.hasAttribute(name) && name !== "open") last.removeAttribute(name); // a reader opened it
        morph(last, next);
    });
    before.slice(after.length).forEach((node) => node.remove());
}

class Live {
    constructor(box) {
        this.part = (kind) => box.querySelector(`.live-${kind}`);
        this.data = JSON.parse(box.querySelector("script").textContent);
        this.view = this.part("view");
        this.inputs = [...box.querySelectorAll("label > select, label > input")];
        this.part("controls").hidden = false;
        this.inputs.forEach((input) => input.addEventListener("input", () => this.moved(input)));
        if (this.data.plays) this.prepare(box);
    }

    get place() {
        return this.inputs.reduce((place, input, n) => place * this.data.controls[n].values.length + +input.value, 0);
    }

    draw() {
        const { fails, controls, pieces, states } = this.data;
        const place = this.place;
        const fresh = document.createElement("template");
        fresh.innerHTML = states[place].map((piece) => pieces[piece]).join("");
        morph(this.view, fresh.content);
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
