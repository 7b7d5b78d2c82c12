"""A published language model, loaded from its file, and what its heads do (notebook 13)."""
