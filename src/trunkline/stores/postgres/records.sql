-- Statements about records, as records.py runs them. `-- name: x` starts one; see
-- stores/statements.py. Changes are made by change_records_1, in the batches of the writer.

-- name: get_record
SELECT version, body, count, due_ms, attempts, tags FROM records
WHERE kind = $1 AND scope = $2 AND id = $3;

-- name: get_of_task
SELECT r.kind, r.scope, r.id, r.version, r.body, r.count, r.due_ms, r.attempts, r.tags
FROM tasks AS t JOIN records AS r ON r.task = t.key
WHERE t.id = $1 ORDER BY r.kind, r.scope, r.id;

-- name: page
-- A page of one kind; the braces are filled in by records.py. The limit is a literal: for any limit,
-- PostgreSQL would plan to read and sort a tenth of the table.
SELECT r.scope, r.id, r.version, r.body, r.count, r.due_ms, r.attempts, r.tags
FROM {source} WHERE {filters} ORDER BY {order} LIMIT {limit};

-- name: all_records
records AS r;

-- name: tagged_records
record_tags AS t CROSS JOIN LATERAL (
    SELECT * FROM records AS r WHERE r.kind = t.kind AND r.scope = t.scope AND r.id = t.id LIMIT 1
) AS r;

-- name: claim_due
SELECT kind, scope, id, version, body, count, due_ms, attempts, tags, claimed_ms
FROM claim_due_2($1::text[], $2::int4[], $3::int8, $4::int8);

-- name: count_due
SELECT count(*) FROM records WHERE kind = $1 AND scope = $2 AND due_ms < $3::int8;

-- name: delete_due
SELECT delete_due_1($1::text, $2::text, $3::int8, $4::int8);
