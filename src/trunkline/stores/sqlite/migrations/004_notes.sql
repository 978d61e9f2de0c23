CREATE TABLE notes (
    scope INTEGER NOT NULL,
    context TEXT NOT NULL,
    name TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (scope, context, name)
) WITHOUT ROWID;
CREATE INDEX notes_by_age ON notes (scope, at_ms);
