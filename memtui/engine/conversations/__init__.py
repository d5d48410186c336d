"""Conversations behind a memory: listing, reading, and asking again what was asked in them."""
