"""What notes need care for: rules over the text of documents, without any index."""
