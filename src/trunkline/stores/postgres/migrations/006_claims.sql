-- Claims of due records end with the node that made them.

-- The node that claimed the record of a scope, for as long as `claimed_until_ms` is `held_until_ms`.
-- What else holds or releases a scope sets only `held_until_ms`: a handler that puts its record off,
-- and the claims of releases that know no other column.
ALTER TABLE due_scopes
    ADD COLUMN held_by int8,
    ADD COLUMN claimed_until_ms int8;
CREATE INDEX due_scopes_by_node ON due_scopes (held_by) WHERE held_until_ms = claimed_until_ms;

-- Claim the first due record of scopes for a node, or for a process that is none (0): of each kind as
-- many as its share. Before that, end the claims of nodes that were given up or have resigned; what
-- their handlers still commit meets another version.
CREATE FUNCTION claim_due_2(kinds text[], shares int4[], lease_ms int8, p_node int8)
RETURNS TABLE (
    kind text, scope text, id text, version int8, body bytea, count int8, due_ms int8,
    attempts int4, tags text, claimed_ms int8
)
LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    dead int8[];
    claimed records[];
BEGIN
    IF p_node <> 0 AND NOT is_alive_1(p_node) THEN
        RETURN;
    END IF;
    SELECT array_agg(n.node) INTO dead FROM nodes AS n
    CROSS JOIN LATERAL (
        SELECT FROM due_scopes AS d
        WHERE d.held_by = n.node AND d.held_until_ms = d.claimed_until_ms LIMIT 1
    ) AS d
    WHERE n.dead_at IS NOT NULL;
    IF dead IS NOT NULL THEN
        -- Waits for nothing, as a claim; a row that is locked is left to the next one.
        UPDATE due_scopes AS d SET held_id = NULL, held_until_ms = 0
        FROM (
            SELECT d.kind, d.scope FROM due_scopes AS d
            WHERE d.held_by = ANY (dead) AND d.held_until_ms = d.claimed_until_ms
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS freed
        WHERE d.kind = freed.kind AND d.scope = freed.scope;
    END IF;
    SELECT array_agg(c) INTO claimed FROM claim_due_1(kinds, shares, lease_ms) AS c;
    UPDATE due_scopes AS d SET held_by = p_node, claimed_until_ms = d.held_until_ms
    FROM unnest(claimed) AS c
    WHERE d.kind = c.kind AND d.scope = c.scope;
    RETURN QUERY SELECT c.kind, c.scope, c.id, c.version, c.body, c.count, c.due_ms, c.attempts,
        c.tags, now_ms()
    FROM unnest(claimed) AS c;
END $$;
