window.attentionSpeaks ??= (() => {
    const set = (part, name, value) => part.getAttribute(name) === `${value}` || part.setAttribute(name, value);
    const each = (kind, tell) => document.querySelectorAll(kind).forEach(tell);
    const played = {'fa-play': 'Play', 'fa-pause': 'Pause', 'fa-stop': 'Stop', 'fa-retweet': 'Repeat'};
    const tell = () => {
        each('.attention-explorer .widget-slider', slider => {
            const [name, shown] = ['.widget-label', '.widget-readout'].map(kind => slider.querySelector(kind));
            slider.querySelectorAll('.noUi-handle').forEach(handle => {
                set(handle, 'aria-label', name.textContent);
                set(handle, 'aria-valuetext', shown.textContent);
                set(handle, 'aria-disabled', slider.querySelector('[disabled]') !== null);
            });
            set(shown, 'role', 'textbox');  // a number can be typed there
            set(shown, 'aria-label', name.textContent);
        });
        each('.attention-explorer .widget-toggle-buttons', group => {
            const name = group.querySelector('.widget-label');
            set(group, 'role', 'group');
            set(group, 'aria-label', name.textContent);
            group.querySelectorAll('button').forEach(button => button.title ||= name.title || name.textContent);
        });
        each('.attention-explorer .widget-toggle-button', button => {
            const more = button.matches('.attention-more');  // it opens a box
            set(button, more ? 'aria-expanded' : 'aria-pressed', button.matches('.mod-active'));
            if (more) button.removeAttribute('aria-pressed');
        });
        each('.attention-explorer .widget-play button', button => {
            const name = played[button.firstElementChild.className.split(' ').pop()];
            set(button, 'aria-label', name);
            set(button, 'title', name);
        });
        each('.attention-explorer > *', part => part.inert = part.parentNode.matches('.jupyter-widgets-disconnected'));
        each('.attention-message', place => set(place, 'role', 'status'));  // read aloud only if it was one before
        each('.attention-explorer i.fa', icon => set(icon, 'aria-hidden', true));  // its glyph is no word
        each('.jp-OutputArea-output img:not([alt])', image => {  // a figure's caption follows it
            const [, svg] = image.src.split('data:image/svg+xml,');
            const drawn = svg && new DOMParser().parseFromString(decodeURIComponent(svg), 'image/svg+xml');
            image.alt = drawn?.documentElement.getAttribute('aria-label') || 'Figure';
        });
    };
    tell();
    const what = {attributeFilter: ['class', 'disabled', 'aria-valuetext']};
    return new MutationObserver(tell).observe(document.body, {subtree: true, childList: true, ...what}) ?? true;
})()
