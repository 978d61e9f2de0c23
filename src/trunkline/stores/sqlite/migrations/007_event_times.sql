-- Rows that are there already keep NULL: nobody knows when they were committed. SQLite changes no row
-- for this, however large the journal is.
ALTER TABLE events ADD COLUMN committed_ms INTEGER;
