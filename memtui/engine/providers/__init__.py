"""The embedding provider of an engine: who answers, who takes over, who is asked again."""
