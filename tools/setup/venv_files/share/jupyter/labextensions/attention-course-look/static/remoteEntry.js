// What the course's JupyterLab looks like: a line of text isn't longer than 75 characters, so that an eye finds the next.
const STYLE = `
.jp-MarkdownCell .jp-RenderedMarkdown > :is(p, ul, ol, blockquote, details):not(:has(> img)),
.jp-OutputArea .jp-RenderedMarkdown > :is(p, ul, ol, div, details) { max-width: 75ch; }
body[data-jp-theme-light="false"] { scrollbar-color: #777 #222; }`; // in Firefox, it would be white

const plugin = {
    id: "attention-course-look:style",
    autoStart: true,
    activate: () => document.head.insertAdjacentHTML("beforeend", `<style>${STYLE}</style>`),
};

globalThis._JUPYTERLAB ??= {};
globalThis._JUPYTERLAB["attention-course-look"] = { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
