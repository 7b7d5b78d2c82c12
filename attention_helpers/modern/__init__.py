"""What today's models change: positions, shared KV heads, windows, latents and states (notebooks 10 to 12)."""
