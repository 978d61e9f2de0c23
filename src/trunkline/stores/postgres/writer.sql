-- Every statement of the writer, beside those of records. `-- name: x` starts one; the comment below it says what it is for.

-- name: append
-- Commit a batch: see migrations/003_append.sql.
SELECT * FROM append_1(
    $1, $2, $3, $4,
    $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
    $15, $16, $17, $18,
    $19, $20, $21, $22,
    $23, $24, $25, $26,
    $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37
);

-- name: append_copies
-- The same for tasks of another store, whose rows have times: id, sequence and time of each.
WITH done AS MATERIALIZED (
    SELECT * FROM append_1(
        $1, $2, $3, $4,
        $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
        $15, $16, $17, $18,
        $19, $20, $21, $22,
        $23, $24, $25, $26,
        $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37
    )
)
SELECT d.epochs, d.codes, d.seen, d.skipped
FROM done AS d
-- After `done`, because it names a column of it.
CROSS JOIN LATERAL (SELECT set_event_times_1($38, $39, $40), d.codes OFFSET 0) AS timed;

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

-- name: get_isolation
SELECT current_setting('transaction_isolation');

-- name: add_writer
INSERT INTO writers (writer, batch, used_at) VALUES ($1::int8, 0, clock_timestamp());

-- name: try_write
-- Whether the database takes changes.
UPDATE writers SET used_at = clock_timestamp() WHERE writer = $1::int8;

-- name: get_batch
-- Whether the database answers.
SELECT batch FROM writers WHERE writer = $1::int8;

-- name: add_value
-- Begin a large value with its first slice. It is loose until its append is committed.
WITH added AS (
    INSERT INTO loose_values (value, until)
    VALUES (nextval('value_numbers'), clock_timestamp() + interval '1 hour') RETURNING value
)
INSERT INTO slices (value, number, body) SELECT value, 0, $1::bytea FROM added RETURNING value;

-- name: add_slice
-- Add a slice, also when it may have been added before. No row: the value was swept.
WITH loose AS (
    UPDATE loose_values SET until = clock_timestamp() + interval '1 hour'
    WHERE value = $1::int8 AND until > clock_timestamp() RETURNING value
)
INSERT INTO slices AS s (value, number, body) SELECT value, $2::int4, $3::bytea FROM loose
ON CONFLICT (value, number) DO UPDATE SET body = s.body RETURNING value;

-- name: give_up_values
-- Values whose append was refused.
UPDATE loose_values SET until = clock_timestamp() WHERE value = ANY ($1::int8[]);
