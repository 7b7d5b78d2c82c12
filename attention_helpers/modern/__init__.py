"""What this year's models change: positions, shared keys, windows, sinks, and layers built from them (notebook 09)."""
