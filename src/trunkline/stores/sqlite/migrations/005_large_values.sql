CREATE TABLE large_values (
    value INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task INTEGER NOT NULL,
    size INTEGER NOT NULL
);
CREATE INDEX large_values_by_task ON large_values (task);
CREATE TABLE slices (
    place INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
CREATE TABLE loose_values (
    value INTEGER PRIMARY KEY
);
