"""What the care screen shows: rules in words, rows, texts, and what was found before."""
