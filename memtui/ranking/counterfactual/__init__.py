"""Counterfactuals: what would bring a chunk into the list, and where a list changes."""
