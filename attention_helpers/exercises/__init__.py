"""Exercises that answer back, one module a lesson: `from attention_helpers.exercises import lesson_01 as practice`."""
