"""Another program's index, and the proof that it ranks the same."""
