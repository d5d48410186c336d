"""The keys of services: where they are looked for, and where each may go."""
