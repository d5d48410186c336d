-- The tables of an index file. `{tokenize}` stands for FTS5's option of that name. They are strict, so that
-- a check of the file finds what is of another type.

CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE files(
  id INTEGER PRIMARY KEY,
  path TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  hash TEXT NOT NULL,
  size INTEGER NOT NULL,
  mtime_ns INTEGER NOT NULL,
  inode INTEGER NOT NULL,
  day TEXT,
  day_from TEXT,
  importance REAL,
  lines INTEGER NOT NULL,
  warnings TEXT NOT NULL DEFAULT '[]',
  seen_ns INTEGER NOT NULL
) STRICT;

-- A number is never given out twice, so that a changed text is one removed and one added row.
CREATE TABLE chunks(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  chunk_id TEXT NOT NULL UNIQUE,
  file_id INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
  start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL,
  text TEXT NOT NULL,
  hash TEXT NOT NULL,
  model TEXT NOT NULL,
  -- Of each passage first character, the one behind its last, flags and number of tokens (uint32).
  passages BLOB NOT NULL,
  -- 0 waits for its vector, 1 has it, 2 gets none: the model does not read its script.
  embedded INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX chunks_of_file ON chunks(file_id);
CREATE INDEX chunks_without_vector ON chunks(id) WHERE embedded = 0;
CREATE INDEX chunks_in_unread_scripts ON chunks(id) WHERE embedded = 2;

-- Unit vectors as little-endian float32; a text in which a model sees nothing has a vector of zeros.
CREATE TABLE vectors(
  id INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
  vector BLOB NOT NULL,
  -- CRC-32 that begins with the row's number: it tells a changed vector, and another chunk's.
  checksum INTEGER NOT NULL
) STRICT;

-- The vectors of the word pieces of a chunk, where its model gives them: how many each passage has (uint16), then
-- 32 numbers of each piece (int8).
CREATE TABLE pieces(
  id INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE,
  pieces BLOB NOT NULL,
  checksum INTEGER NOT NULL
) STRICT;
-- So that the status need not read them.
CREATE INDEX pieces_by_size ON pieces(length(pieces));

CREATE TABLE transcripts(
  file_id INTEGER PRIMARY KEY REFERENCES files ON DELETE CASCADE,
  -- What lists show of it, and where its reading goes on; both JSON.
  facts TEXT NOT NULL,
  state TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE chunks_fts USING fts5(
  text, content='', contentless_delete=1, tokenize="{tokenize}"
);
CREATE VIRTUAL TABLE chunks_terms USING fts5vocab(chunks_fts, 'row');
-- A page of the full-text index that fits one page of the file: a fifth less space.
INSERT INTO chunks_fts(chunks_fts, rank) VALUES('pgsz', 16000);
-- How much of a transaction is gathered before it is written: nearly always all, in one piece.
INSERT INTO chunks_fts(chunks_fts, rank) VALUES('hashsize', 67108864);
