"""Judge a layer that somebody else wrote: by the course's list of mistakes, and by what can be measured.

To teach it a mistake, add a row to mistakes.py. To add a measurement, write a function in measures.py that takes a Case
and returns a Verdict or None, and give it a topic in MEASURES of inspection.py, at the place of its weight.
"""
