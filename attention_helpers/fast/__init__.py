"""The same attention computed faster, and what it costs (notebook 08)."""
