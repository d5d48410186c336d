"""What the chunk screen shows: facts, terms, what is like the chunk, queries it answers."""
