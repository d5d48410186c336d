"""What is looked at without a query: files, days, one chunk from every side, care."""
