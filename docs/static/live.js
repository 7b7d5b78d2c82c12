// The explorers of the reading site. A page holds all states of an explorer, and a control chooses the one that trees.js
// brings its view to. Without these scripts, the page shows one of the states and no controls.
"use strict";

const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const FRAME = 140, QUIET = 400; // milliseconds that a picture stays when playing, and before a headline is read aloud

class Live {
    constructor(box) {
        this.part = (kind) => box.querySelector(`.live-${kind}`);
        this.data = JSON.parse(box.querySelector("script").textContent);
        this.view = this.part("view");
        this.inputs = [...box.querySelectorAll("label > select, label > input")];
        this.trees = new Trees(this.data);
        this.shown = this.state;
        this.part("controls").hidden = false;
        this.inputs.forEach((input) => input.addEventListener("input", () => this.moved(input)));
        if (this.data.plays) this.prepare(box);
    }

    get place() {
        return this.inputs.reduce((place, input, n) => place * this.data.controls[n].values.length + +input.value, 0);
    }

    get state() {
        return this.trees.node(this.data.states[this.place]);
    }

    draw() {
        const { fails, controls } = this.data;
        const last = this.shown;
        this.trees.morph(this.view, last, (this.shown = this.state));
        this.inputs.forEach((input, n) => {
            if (input.type !== "range") return;
            const label = controls[n].values[input.value];
            input.setAttribute("aria-valuetext", label);
            input.nextElementSibling.textContent = label;
        });
        if (this.data.plays) this.part("remedy").classList.toggle("live-wanted", fails.includes(this.place));
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
