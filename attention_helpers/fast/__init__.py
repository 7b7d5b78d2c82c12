"""What attention costs (notebooks 06, 09 and 10)."""
