"""How OpenClaw's releases search their index: query rules, legs and what they hand to ranking."""
