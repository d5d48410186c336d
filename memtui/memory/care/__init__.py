"""Rules for defects of notes, over the text of documents, without any index."""
