"""OpenClaw's configuration: read, translated into memtui's settings, and written as a fragment."""
