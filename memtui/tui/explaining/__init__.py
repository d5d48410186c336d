"""What the explain screen says, as pure functions from values to lines of text."""
