// The one view of an explorer: it shows what Python has drawn, names the explorer's controls for screen readers, plays,
// and says where the picture was touched. The kernel answers each message, so the page knows when it may send the next.

const QUIET = 400; // milliseconds without a change, after which a headline is read aloud
const TICK = 10; // milliseconds after which a playing page looks whether the next picture is due
const AWAY = 20000; // milliseconds out of sight, after which a picture rests
const STEP = 4; // pixels that an arrow key moves what's held

const set = (part, name, value) => part.getAttribute(name) === `${value}` || part.setAttribute(name, value);

/** Tell a screen reader what ipywidgets doesn't: a slider's name and what it shows, a group's name, what's pressed. */
function nameControls(box) {
    const each = (kind, tell) => box.querySelectorAll(kind).forEach(tell);
    each(".widget-slider", (slider) => {
        const [name, shown] = [".widget-label", ".widget-readout"].map((kind) => slider.querySelector(kind));
        slider.querySelectorAll(".noUi-handle").forEach((handle) => {
            set(handle, "aria-label", name.textContent);
            set(handle, "aria-valuetext", shown.textContent);
            set(handle, "aria-disabled", slider.querySelector("[disabled]") !== null);
        });
        set(shown, "role", "textbox"); // a number can be typed there
        set(shown, "aria-label", name.textContent);
    });
    each(".widget-toggle-buttons", (group) => {
        const name = group.querySelector(".widget-label");
        set(group, "role", "group");
        set(group, "aria-label", name.textContent);
        group.querySelectorAll("button").forEach((button) => (button.title ||= name.title || name.textContent));
    });
    each(".widget-toggle-button", (button) => {
        const opens = button.matches(".attention-more");
        set(button, opens ? "aria-expanded" : "aria-pressed", button.matches(".mod-active"));
        if (opens) button.removeAttribute("aria-pressed");
    });
    for (const part of box.querySelectorAll(".widget-inline-hbox")) {
        const off = part.querySelector("[disabled]"), name = part.querySelector(".widget-label");
        set(part, "data-why", (off && name?.title) || "");
    }
    each("i.fa", (icon) => set(icon, "aria-hidden", true)); // its glyph is no word
    for (const part of box.children) part.inert = box.matches(".jupyter-widgets-disconnected");
}

/** On a slider whose options have changed, noUiSlider's End key leads to where the first ones ended: go on from there. */
function goOnToEnd({ key, target }) {
    const left = key === "End" && target.matches(".noUi-handle") ? target.ariaValueMax - target.ariaValueNow : 0;
    for (let n = 0; n < left; n += 1) target.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
}

/** The explorer around a view gets its names now, and again whenever its controls change. */
function watchControls(box, view) {
    const observer = new MutationObserver(() => nameControls(box));
    const what = { subtree: true, childList: true, attributeFilter: ["class", "disabled", "title", "aria-valuetext"] };
    for (const part of box.children) if (part !== view) observer.observe(part, what);
    observer.observe(box, { attributeFilter: ["class"] }); // the kernel is gone
    box.addEventListener("keydown", goOnToEnd);
    nameControls(box);
    return observer;
}

/** Sends a message while another is answered, and keeps only the newest of those that have to wait. */
class Line {
    constructor(model, idle) {
        [this.model, this.busy] = [model, 0];
        this.answered = () => {
            this.busy = Math.max(this.busy - 1, 0); // another view of the same explorer is answered, too
            this.send();
            if (!this.busy) idle();
        };
        model.on("msg:custom", this.answered);
    }

    send(message) {
        this.waiting = message ?? this.waiting;
        if (this.busy > 1 || !this.waiting) return;
        this.busy += 1;
        this.model.send(this.waiting);
        this.waiting = null;
    }
}

/** Pointers and keys on whatever has data-touch: a click or Enter chooses it; one with data-drag also moves. */
class Touch {
    constructor(view, line, signal) {
        [this.view, this.line] = [view, line];
        this.key = view.querySelector(".attention-touch");
        const on = (target, kind, react) => target.addEventListener(kind, react, { signal });
        on(view, "pointerdown", (event) => this.down(event));
        on(view, "pointermove", (event) => this.held && this.moveTo(event.clientX, event.clientY));
        on(view, "pointerup", () => this.up());
        on(view, "pointercancel", () => (this.held = false));
        on(this.key, "keydown", (event) => this.pressed(event));
        on(this.key, "focus", () => this.shown());
        on(this.key, "blur", () => {
            this.grabbed = false;
            this.shown();
        });
    }

    /** What can be touched, by name; a name can have several elements, such as a row its cells. */
    get parts() {
        const parts = new Map();
        for (const part of this.view.querySelectorAll("[data-touch]")) {
            const name = part.dataset.touch;
            parts.set(name, [...(parts.get(name) ?? []), part]);
        }
        return parts;
    }

    /** What's new on the page: the part that the keys are at is outlined, and named. */
    shown() {
        const { parts, key } = this, names = [...parts.keys()];
        key.hidden = !names.length;
        if (key.hidden) return;
        if (!parts.has(this.name)) this.name = names[0];
        const here = parts.get(this.name), focused = document.activeElement === key;
        this.view.querySelectorAll(".attention-here").forEach((part) => part.classList.remove("attention-here"));
        if (focused) here.forEach((part) => part.classList.add("attention-here"));
        set(key, "aria-valuemax", names.length - 1);
        set(key, "aria-valuenow", names.indexOf(this.name));
        set(key, "aria-valuetext", here.map((part) => part.querySelector("title")?.textContent).join(", "));
    }

    down(event) {
        const part = event.target.closest("[data-touch]");
        if (!part || event.button) return;
        this.name = part.dataset.touch;
        this.written = "";
        event.preventDefault(); // or the focus would go elsewhere
        this.key.focus({ preventScroll: true });
        if ("drag" in part.dataset) {
            this.view.querySelector(".attention-shown").setPointerCapture?.(event.pointerId);
            [this.held, this.dragged] = [true, false];
            this.gripped(part, event);
        }
        if (!("drag" in part.dataset || "write" in part.dataset)) this.line.send({ touch: this.name });
        this.shown();
    }

    up() {
        if (this.held && !this.dragged) this.line.send({ touch: this.name });
        this.held = false;
    }

    /** Where a pointer is in the picture's own pixels; each picture has another part, and may be elsewhere on the page. */
    place(x, y) {
        const [part] = this.parts.get(this.name);
        return new DOMPoint(x, y).matrixTransform(part.parentNode.getScreenCTM().inverse());
    }

    /** A bar is held anywhere, and its end, data-end, moves as far as the hand. */
    gripped(part, event) {
        const at = this.place(event.clientX, event.clientY);
        this.off = "end" in part.dataset ? at.y - part.dataset.end : 0;
    }

    moveTo(x, y) {
        this.dragged = true;
        const at = this.place(x, y);
        this.line.send({ touch: this.name, at: [at.x, at.y - this.off] });
    }

    pressed(event) {
        const { parts, name } = this, drawn = parts.get(name)?.[0]?.dataset ?? {};
        const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
        const digit = "write" in drawn && /^([-.\d]|Backspace)$/.test(event.key);
        const others = event.key === "Tab" || (event.shiftKey && event.key === "Enter");
        const command = (event.ctrlKey || event.metaKey || event.altKey) && event.key !== "a"; // such as save
        if (others || command) return;
        event.preventDefault();
        event.stopPropagation(); // or Lab would cut the cell, or go to another
        if (digit) this.write(event.key);
        else if (move && this.grabbed) this.line.send({ touch: name, by: move.map((each) => STEP * each) });
        else if (move) this.name = this.next(...move);
        else if (event.key === "Enter" && "drag" in drawn) this.grabbed = !this.grabbed;
        else if (event.key === "Enter") this.line.send({ touch: name });
        else if (event.key === "Delete" && ("drag" in drawn || "write" in drawn)) this.line.send({ touch: name, at: null });
        else if (event.key !== "Escape") return;
        else if (this.grabbed || this.written) this.line.send({ touch: name, at: null });
        else this.leave();
        if (event.key === "Escape") this.grabbed = false;
        if (!digit) this.written = "";
        this.shown();
    }

    /** Give the keys back, in Lab to the cell. */
    leave() {
        this.key.blur();
        this.view.closest(".jp-Cell")?.focus({ preventScroll: true });
    }

    /** The name that an arrow key leads to: where names have places like 2,1, the one beside, else the next. */
    next(x, y) {
        const names = [...this.parts.keys()], [kind, place] = this.name.split(" ");
        const [column, row] = place.split(",").map(Number);
        const beside = `${kind} ${column + x},${row + y}`;
        if (row !== undefined && names.includes(beside)) return beside;
        return names[Math.min(Math.max(names.indexOf(this.name) + x + y, 0), names.length - 1)];
    }

    /** A number that is typed counts from its first digit on. */
    write(key) {
        this.written = key === "Backspace" ? this.written.slice(0, -1) : `${this.written ?? ""}${key}`;
        if (!Number.isNaN(Number(this.written))) this.line.send({ touch: this.name, value: Number(this.written) });
    }
}

function render({ model, el }) {
    el.classList.add("attention-view");
    el.innerHTML = `<div class="attention-message" role="status"></div><div class="attention-shown"></div>
        <div class="attention-touch" role="slider" tabindex="0" aria-label="picture" hidden></div>
        <p class="attention-said" aria-live="polite"></p>`;
    const [message, shown, said] = ["message", "shown", "said"].map((part) => el.querySelector(`.attention-${part}`));
    const ended = new AbortController();
    const own = Math.random().toString(36).slice(2); // a pattern's name is a whole page's
    const line = new Line(model, () => next());
    const touch = new Touch(el, line, ended.signal);
    let [controls, seen, away, timer, saying, asked] = [null, false, null, null, null, 0];

    const say = () => (said.textContent = shown.querySelector(".attention-headline")?.textContent ?? "");
    const draw = () => {
        shown.innerHTML = model.get("html").replace(/(["#])hatched(?=[")])/g, `$1hatched-${own}`);
        touch.shown();
        clearTimeout(saying);
        if (!model.get("playing")) saying = setTimeout(say, QUIET);
    };
    const write = () => (message.innerHTML = model.get("message"));
    const next = () => {
        if (!seen || !model.get("playing") || line.busy || performance.now() - asked < model.get("pace")) return;
        asked = performance.now();
        line.send({ next: true });
    };
    const play = () => {
        clearInterval(timer);
        if (seen && model.get("playing")) timer = setInterval(next, TICK);
    };
    const watch = new IntersectionObserver(([{ isIntersecting, target }]) => {
        clearTimeout(away);
        if (isIntersecting) seen = true;
        else away = setTimeout(() => (seen = false) || play(), AWAY); // a scroll to and fro pauses nothing
        const box = target.closest(".attention-explorer");
        if (box) controls ??= watchControls(box, el);
        play();
    });
    const heard = { "change:html": draw, "change:message": write, "change:playing": play };
    for (const name in heard) model.on(name, heard[name]);
    draw();
    write();
    watch.observe(shown);
    return () => {
        for (const name in heard) model.off(name, heard[name]);
        model.off("msg:custom", line.answered);
        ended.abort();
        clearTimeout(away);
        clearInterval(timer);
        controls?.disconnect();
        watch.disconnect();
    };
}

export default { render };
