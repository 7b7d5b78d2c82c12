"""What makes a lesson answer: explorers, exercises, and verdicts on anybody's layer. Built on attention_helpers."""
