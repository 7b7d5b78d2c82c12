"""For notebooks from before version 0.2, in which this was a part of the package."""

raise ImportError(
    "explorers are in attention_course now; `make reset NOTEBOOK=03` brings notebook 03 as it is now, keeping yours"
)
