"""JupyterLab in Firefox: one slider, moved with the mouse."""

import pytest
from conftest import write_notebook
from firefox import FIREFOX, firefox
from lab import TOKEN, Kernel

NAME = "firefox.ipynb"
CODE = """from attention_course.explorers import ScoresExplorer
from attention_helpers import load_sentence
shown = ScoresExplorer(load_sentence("journey"))
shown"""
# As in Chromium: before the kernel has answered this, what's run can be lost.
LISTEN = """() => {
    const made = window.WebSocket;
    window.WebSocket = class extends made {
        constructor(...given) {
            super(...given);
            this.addEventListener('message', async ({data}) => {
                const said = typeof data === 'string' ? data : await new Response(data).text();
                window.kernelAnswers ||= said.includes('comm_info_reply');
            });
        }
    };
}"""
RUN = "[data-command='notebook:run-cell-and-select-next']"  # the toolbar's button
HANDLE, PICTURE = ".ScoresExplorer .noUi-handle", "document.querySelector('.ScoresExplorer [role=img]')"


@pytest.mark.skipif(not FIREFOX, reason="there's no Firefox on this machine")
def test_the_mouse_moves_a_slider(served):
    write_notebook(served.folder / NAME, CODE)
    with firefox() as page:
        page.ask("script.addPreloadScript", functionDeclaration=LISTEN)
        page.open(f"{served.address}/lab/tree/{NAME}?reset&token={TOKEN}")
        page.wait_for("window.kernelAnswers && !document.querySelector('#jupyterlab-splash')")
        page.drag(RUN)
        page.wait_for(f"{PICTURE} !== null && document.querySelector('{HANDLE}') !== null")
        kernel = Kernel(served, NAME)
        first = kernel.ask("shown.values['query']")
        page.drag(HANDLE, right=500)
        kernel.wait_for(f"shown.values['query'] > {first}")
        page.wait_for(f"{PICTURE}.ariaLabel === {kernel.ask('shown.alt')!r}")
        kernel.stop()
