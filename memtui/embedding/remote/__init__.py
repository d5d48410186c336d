"""Embedding by services: the connection, its failures, its pace, and the provider on top."""
