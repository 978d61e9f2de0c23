-- name: get_nodes
-- All nodes that operators may ask about, the oldest first: those that live, and those that were
-- given up and whose rows are still there. Times are seconds, by the clock of the database.
SELECT n.node, n.about,
    n.dead_at IS NULL AND n.lease_until > clock_timestamp() AS is_alive,
    extract(epoch FROM n.lease_until - clock_timestamp())::float8 AS lease_left_s,
    extract(epoch FROM clock_timestamp() - n.dead_at)::float8 AS dead_for_s,
    (SELECT count(*) FROM lanes AS l WHERE l.owner = n.node) AS lanes
FROM nodes AS n ORDER BY n.about::jsonb ->> 'started_ms', n.node
