"""Settings: TOML files, environment and flags, typed, with the origin of every value."""
