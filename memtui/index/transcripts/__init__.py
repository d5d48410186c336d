"""Conversation transcripts in memtui's own index: found by stat, read as streams, followed."""
