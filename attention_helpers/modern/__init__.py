"""What today's models change: positions, shared KV heads, windows, sinks, and layers built from them (notebook 09)."""
