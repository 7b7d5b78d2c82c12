"""The lookup task and the training loop, and character models (notebooks 07 and 08)."""
