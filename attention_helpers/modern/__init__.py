"""What today's models change: positions, shared KV heads, windows, sinks, layers (notebooks 10 to 12)."""
