"""A published language model, read from its file, and what its heads do (notebook 10)."""
