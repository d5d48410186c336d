"""The parts of the browse screen: what its panes show, as values, and what its keys do."""
