"""What is known about one chunk of a search as a report: as text, JSON, Markdown and SVG."""
