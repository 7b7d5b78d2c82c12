"""Look into a layer that somebody else wrote, and say what was measured.

To add a finding, write a function that takes a Call and returns a Verdict or None, give it a topic in
inspection.judge, at the place of its weight, and put a layer that needs it into WRONG of tests/other_layers.py.
"""
