"""Any layer that computes attention, also one that isn't ours: its attention maps, and what can be said of it."""
