-- Every statement of the cluster. `-- name: x` starts one; the comment below it says what it is for.
-- Each can be repeated after its answer was lost: see migrations/004_lanes.sql.

-- name: join
-- Become a node. Answers with the timeline of the server.
INSERT INTO nodes (node, about, lease_until)
VALUES ($1::int8, $2::text, clock_timestamp() + $3::int8 * interval '1 ms')
ON CONFLICT (node) DO UPDATE SET lease_until = excluded.lease_until
RETURNING timeline_1();

-- name: beat
-- Live on. No row for a node that was given up.
UPDATE nodes SET lease_until = clock_timestamp() + $2::int8 * interval '1 ms'
WHERE node = $1::int8 AND dead_at IS NULL AND lease_until > clock_timestamp()
RETURNING timeline_1();

-- name: resign
-- Be dead at once. The lanes of a dead node are free, though their rows still name it.
UPDATE nodes SET dead_at = clock_timestamp() WHERE node = $1::int8 AND dead_at IS NULL;

-- name: take
SELECT take_1($1::int8, $2::text, $3::text);

-- name: take_over
SELECT lane, epoch FROM take_over_1($1::int8, $2::text, $3::int8, $4::bool, $5::text[], $6::int4);

-- name: leave
SELECT leave_1($1::int8, $2::text[], $3::int8[]);

-- name: free
UPDATE lanes SET owner = NULL
WHERE lane = $2::text AND owner IS NOT DISTINCT FROM $1::int8 AND epoch = $3::int8;

-- name: find_work
-- The tasks of these lanes that have work to do, in the order in which they were created.
SELECT t.lane, t.id, s.agent, s.tenant, s.principal
FROM tasks t JOIN scopes s ON s.id = t.scope
WHERE t.lane = ANY ($1::text[])
ORDER BY t.key;

-- name: read_slots
SELECT version, shares, living, at_ms FROM read_slots_1($1::text[]);

-- name: write_slots
-- Change rows of slots that have the version with which they were read. Answers with their agents.
INSERT INTO slots (agent, version, shares)
SELECT c.agent, c.version + 1, c.shares
FROM unnest($1::text[], $2::int8[], $3::bytea[]) AS c (agent, version, shares) ORDER BY c.agent
ON CONFLICT (agent) DO UPDATE SET version = excluded.version, shares = excluded.shares
WHERE slots.version = excluded.version - 1
RETURNING agent;

-- name: forget_nodes
SELECT forget_nodes_1();

-- name: notify
SELECT pg_notify('trunkline', payload) FROM unnest($1::text[]) AS p (payload);

-- name: listen
LISTEN trunkline;
