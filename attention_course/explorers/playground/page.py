"""What the page needs to show a playground: its looks, and a script that starts it."""

# The picture has room at a window of 1024 x 768, and where there's more room it's larger.
STYLE = """<style>.Playground {container-type: inline-size}
@container (min-width: 750px) {.Playground [role=img] {zoom: 1.25}}
.Playground .attention-headline {min-height: 2.6em}
@container (min-width: 900px) {.Playground [role=img] {zoom: 1.4}
    .Playground .attention-headline {min-height: 0}}
.Playground .widget-readout {min-width: 3.6em}
.Playground .slider-container {min-width: 90px}
.Playground > .widget-vbox > :first-child .widget-readout {min-width: 2em}
.Playground > .widget-vbox > :first-child .slider-container {min-width: 80px; margin: 0 3px 0 9px}
.Playground > .widget-vbox > :first-child .widget-label {margin-right: 4px}
.Playground .attention-remedy {background: #a84300; color: #fff; font-weight: bold}
.Playground .attention-shown {display: none}</style>"""
# Once it's shown, the page itself presses a button that nobody sees, unless the reader wants less motion.
SHOWN = """<style onload="const press = tries => {
    const button = this.closest('.Playground')?.querySelector('.attention-shown');
    if (!button) return tries && setTimeout(press, 100, tries - 1);
    matchMedia('(prefers-reduced-motion: reduce)').matches || button.click();
}; press(50)"></style>"""
