"""For ears and keyboards: the names and spoken values that ipywidgets and JupyterLab don't give to what they show.

A screen reader hears a slider without its name, and "2.00" where the page shows "0.01". So a script in the page copies
what's on the screen to where a screen reader looks, each time something changes. It comes with an explorer's styles.
"""

import html
from pathlib import Path

SCRIPT = Path(__file__).with_name("access.js").read_text(encoding="utf-8").strip()
# A style is what can run a script from a widget's HTML, once, without a message in the browser's console.
STYLE = f'<style onload="{html.escape(SCRIPT)}">'
