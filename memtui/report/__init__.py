"""Reports: one wording for everything, as text, JSON, Markdown and SVG."""
