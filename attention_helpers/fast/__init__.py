"""The same attention computed faster, and what it costs (notebooks 09 and 10)."""
