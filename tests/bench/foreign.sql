-- The memory tables of OpenClaw 2026.9.6, then the indexes, which are made when all rows are there.
CREATE TABLE memory_index_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE schema_meta (schema_version, agent_id, app_version);
INSERT INTO schema_meta VALUES (23, 'main', '2026.9.6');
CREATE TABLE memory_index_chunk_recall_metadata
  (chunk_id TEXT PRIMARY KEY, importance INTEGER, triggers TEXT, project_key TEXT);
CREATE TABLE memory_index_state (id INTEGER PRIMARY KEY, revision INTEGER);
INSERT INTO memory_index_state VALUES (1, 1);
CREATE TABLE memory_index_sources (id INTEGER PRIMARY KEY, path TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'memory', hash TEXT NOT NULL, mtime REAL NOT NULL, size INTEGER NOT NULL);
CREATE TABLE memory_index_chunks (chunk_rowid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
  source TEXT NOT NULL DEFAULT 'memory', start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
  hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, embedding BLOB NOT NULL,
  updated_at INTEGER NOT NULL);
CREATE VIRTUAL TABLE memory_index_paths_fts USING fts5(path, source UNINDEXED);
CREATE VIRTUAL TABLE memory_index_chunks_fts USING fts5(text, id UNINDEXED, path UNINDEXED, source UNINDEXED,
  model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED);
CREATE VIRTUAL TABLE memory_index_chunks_vec USING vec0(id TEXT PRIMARY KEY, embedding FLOAT[384]);

-- indexes
CREATE INDEX idx_memory_index_chunks_path ON memory_index_chunks(path);
CREATE INDEX idx_memory_index_chunks_source ON memory_index_chunks(source);
CREATE INDEX idx_memory_index_chunks_path_source ON memory_index_chunks(path, source);
INSERT INTO memory_index_chunks_fts(memory_index_chunks_fts) VALUES('optimize');
