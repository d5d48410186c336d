"""Indexes that OpenClaw made, read without leaving a trace."""
