"""The search of OpenClaw's releases: query rules, legs, and what they hand to ranking."""
