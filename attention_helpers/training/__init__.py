"""The lookup task and the training loop (notebook 07), and character models (08, and 11 with rotary positions)."""
