// A name for the theme's side bar, for screen readers, and a button on each cell's code, which copies it.
"use strict";

const side = document.getElementById("pst-primary-sidebar");
side?.setAttribute("role", "complementary");
side?.setAttribute("aria-label", "Site");

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
