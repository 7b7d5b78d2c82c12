"""Pictures as PNG: what Pillow reads back is what was written."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from attention_helpers.canvas import as_png, palette


@given(arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40))))
def test_png_holds_every_pixel(pixels):
    image = Image.open(BytesIO(as_png(pixels, palette()[0])))
    image.load()  # Pillow checks the checksums
    assert (np.asarray(image) == pixels).all()
    assert (np.asarray(image.convert("RGB")) == palette()[0][pixels]).all()


@pytest.mark.parametrize("part", [20, 60, 900, -30])
def test_a_damaged_png_is_found_out(part):
    """So that the test above sees a wrong checksum: Pillow refuses a file with one wrong byte."""
    png = bytearray(as_png(np.arange(256, dtype=np.uint8)[None], palette()[0]))
    png[part] ^= 1
    with pytest.raises((SyntaxError, OSError)):
        Image.open(BytesIO(bytes(png))).convert("RGB")
