CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY,
    scope INTEGER NOT NULL,
    context TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX exchanges_by_context ON exchanges (scope, context, at_ms);
CREATE INDEX exchanges_by_scope ON exchanges (scope, at_ms);
