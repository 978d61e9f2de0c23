-- Every statement of the writer. `-- name: x` starts one; the comment below it says what it is for.

-- name: append
-- Commit a batch: see migrations/003_append.sql.
SELECT * FROM append_1(
    $1, $2, $3,
    $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
    $14, $15, $16, $17,
    $18, $19, $20, $21,
    $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36
);

-- name: find_scopes
-- The numbers of these scopes, in their order; NULL for those that have none yet.
SELECT s.id FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
    AS t (agent, tenant, principal, i)
LEFT JOIN scopes AS s USING (agent, tenant, principal)
ORDER BY t.i;

-- name: add_scopes
INSERT INTO scopes (agent, tenant, principal)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ORDER BY 1, 2, 3
ON CONFLICT DO NOTHING;

-- name: get_unsafe
-- Settings that are switched off, so that the server loses what it acknowledged.
SELECT name FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off' ORDER BY name;

-- name: add_writer
INSERT INTO writers (writer, batch, used_at) VALUES ($1::int8, 0, clock_timestamp());

-- name: try_write
-- Whether the database takes changes.
UPDATE writers SET used_at = clock_timestamp() WHERE writer = $1::int8;

-- name: get_batch
-- Whether the database answers.
SELECT batch FROM writers WHERE writer = $1::int8;

-- name: get_task
SELECT t.context, t.state, t.status_ms, t.created_ms, t.last_seq, n.seq, n.body, n.artifacts
FROM tasks AS t JOIN scopes AS s ON s.id = t.scope LEFT JOIN snapshots AS n ON n.task = t.key
WHERE t.id = $1::text AND s.agent = $2::text AND s.tenant = $3::text AND s.principal = $4::text;

-- name: get_entries
-- Rows of a journal; each has at least one of the wanted entries.
SELECT e.seq, e.kind, e.body FROM tasks AS t JOIN events AS e ON e.task = t.key
WHERE t.id = $1::text AND e.seq > $2::int4 ORDER BY e.seq LIMIT $3::int4;
