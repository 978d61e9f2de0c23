"""Records in a SQLite database, for every store."""
