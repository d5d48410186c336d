"""Conversation transcripts: from the records of a file to lines that can be chunked and indexed."""
