-- Every statement about records. `-- name: x` starts one; see stores/statements.py.

-- name: insert_records
-- Records that must be new. OR FAIL: see insert_tasks of the SQLite store.
INSERT OR FAIL INTO records (kind, scope, id, version, count, attempts, due_ms, task, tags, body)
VALUES {rows};

-- name: insert_tags
INSERT OR IGNORE INTO record_tags (kind, tag, scope, id) VALUES {rows};

-- name: insert_record
INSERT INTO records (kind, scope, id, version, count, attempts, due_ms, task, tags, body)
VALUES (?, ?, ?, 1, ?, 0, ?, ?, ?, ?);

-- name: insert_tag
INSERT OR IGNORE INTO record_tags (kind, tag, scope, id) VALUES (?, ?, ?, ?);

-- name: add_due_scope
INSERT INTO due_scopes (kind, scope, due_ms, held_until_ms, is_deferred) VALUES (?, ?, ?, 0, 0)
ON CONFLICT (kind, scope) DO UPDATE SET due_ms = excluded.due_ms WHERE excluded.due_ms < due_ms;

-- name: find_record
-- What a change is checked against.
SELECT number, version, count, due_ms, tags FROM records WHERE kind = ? AND scope = ? AND id = ?;

-- name: find_records
-- The same for many ids of a scope, which are a JSON array.
SELECT t.value, r.number, r.version, r.count, r.due_ms, r.tags
FROM json_each(?) AS t CROSS JOIN records AS r ON r.kind = ? AND r.scope = ? AND r.id = t.value;

-- name: update_record
UPDATE records SET version = ?, attempts = 0, due_ms = ?, task = ?, tags = ?, body = ?
WHERE number = ?;

-- name: add_to_count
UPDATE records SET version = version + ?, count = count + ? WHERE number = ?;

-- name: delete_record
DELETE FROM records WHERE number = ?;

-- name: delete_records
-- The numbers are a JSON array.
DELETE FROM records WHERE number IN (SELECT value FROM json_each(?));

-- name: delete_tag
DELETE FROM record_tags WHERE kind = ? AND tag = ? AND scope = ? AND id = ?;

-- name: get_record
SELECT number, version, body, count, due_ms, attempts, tags FROM records
WHERE kind = ? AND scope = ? AND id = ?;

-- name: get_numbered
-- A record by the number of its row, which another record may have by now.
SELECT version, body, count, due_ms, attempts, tags FROM records
WHERE number = ? AND kind = ? AND scope = ? AND id = ?;

-- name: get_of_task
SELECT kind, scope, id, version, body, count, due_ms, attempts, tags FROM records
WHERE task = ? ORDER BY kind, scope, id;

-- name: page
-- A page of one kind; the braces are filled in by reader.py.
SELECT r.scope, r.id, r.version, r.body, r.count, r.due_ms, r.attempts, r.tags
FROM {source} WHERE {filters} ORDER BY {order} LIMIT :limit;

-- name: find_of_tasks
-- The records of many tasks, which are a JSON array.
SELECT r.kind, r.scope, r.id, r.number, r.version, r.count, r.due_ms, r.tags
FROM json_each(?) AS t CROSS JOIN records AS r ON r.task = t.value;

-- name: all_records
records AS r;

-- name: tagged_records
record_tags AS t CROSS JOIN records AS r ON r.kind = t.kind AND r.scope = t.scope AND r.id = t.id;

-- name: next_due
-- The first due time of a scope.
SELECT min(due_ms) FROM records WHERE kind = ? AND scope = ? AND due_ms IS NOT NULL;

-- name: get_holder
SELECT held_id FROM due_scopes WHERE kind = ? AND scope = ?;

-- name: release_due_scope
UPDATE due_scopes SET due_ms = ?, held_id = NULL, held_until_ms = 0 WHERE kind = ? AND scope = ?;

-- name: release_claims
-- The claims of a process that is gone. What a handler deferred stays deferred.
UPDATE due_scopes SET held_id = NULL, held_until_ms = 0 WHERE held_id IS NOT NULL AND NOT is_deferred;

-- name: release_claim
-- The claim of one record.
UPDATE due_scopes SET held_id = NULL, held_until_ms = 0
WHERE kind = ? AND scope = ? AND held_id = ? AND NOT is_deferred;

-- name: delete_due_scope
DELETE FROM due_scopes WHERE kind = ? AND scope = ?;

-- name: find_due_scopes
-- Scopes to claim from: those that have waited the longest for their turn.
SELECT scope FROM due_scopes
WHERE kind = :kind AND due_ms <= :now AND held_until_ms < :now ORDER BY due_ms LIMIT :limit;

-- name: find_due
SELECT number, id FROM records
WHERE kind = ? AND scope = ? AND due_ms <= ? ORDER BY due_ms, id LIMIT 1;

-- name: find_old
-- Records that have been due since before a time, the longest first.
SELECT id, number, version, count, due_ms, tags FROM records
WHERE kind = ? AND scope = ? AND due_ms < ? ORDER BY due_ms, id LIMIT ?;

-- name: count_old
SELECT count(*) FROM records WHERE kind = ? AND scope = ? AND due_ms < ?;

-- name: hold_scope
UPDATE due_scopes SET held_id = ?, held_until_ms = ?, is_deferred = ? WHERE kind = ? AND scope = ?;

-- name: defer_scope
-- Unless another record of the scope is claimed.
UPDATE due_scopes SET held_id = :id, held_until_ms = :until, is_deferred = 1
WHERE kind = :kind AND scope = :scope
    AND (held_id IS NULL OR held_id = :id OR held_until_ms < :now);

-- name: claim_record
UPDATE records SET version = version + 1, attempts = attempts + 1 WHERE number = ?;

-- name: get_rows
-- Whole records, for the files of the json-file store. The braces are filled in with a filter.
SELECT r.kind, r.scope, r.id, r.version, r.count, r.attempts, r.due_ms, r.task, r.tags, r.body,
    d.held_until_ms, d.is_deferred
FROM records AS r
LEFT JOIN due_scopes AS d ON d.kind = r.kind AND d.scope = r.scope AND d.held_id = r.id
WHERE {filter};
