"""The lookup task and the training loop, and character models (notebook 07)."""
