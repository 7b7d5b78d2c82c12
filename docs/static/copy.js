// A button on each cell's code, which copies it.
"use strict";

document.querySelectorAll("div.cell_input div.highlight, div[class*=highlight-] > div.highlight").forEach((box) => {
    const button = document.createElement("button");
    const code = box.querySelector("pre").textContent.trimEnd();
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
        try {
            await navigator.clipboard.writeText(code);
            button.textContent = "Copied";
        } catch {
            button.textContent = "Not allowed";
        }
        setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    box.append(button);
});
