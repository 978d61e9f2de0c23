-- Who owns which lane, and which nodes live. Each function is one transaction, and each statement in
-- it sees what was committed before that statement: so they lock first, and look in the next one.

-- Give up the nodes whose lease is over. It waits for a beat under way, and looks again.
CREATE FUNCTION judge_1() RETURNS void LANGUAGE sql AS $$
    UPDATE nodes SET dead_at = clock_timestamp()
    WHERE dead_at IS NULL AND lease_until <= clock_timestamp()
$$;

CREATE FUNCTION is_alive_1(p_node int8) RETURNS bool LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM nodes WHERE node = p_node AND dead_at IS NULL)
$$;

-- The timeline of the server, which changes when a standby takes over. Commits of the last moments
-- may be lost then, beats among them: a node that looks dead may live.
CREATE FUNCTION timeline_1() RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)
$$;

-- The epoch of a lane that the node owns now; NULL while another living node owns it. The lane of a
-- dead node is taken if the timeline is the one that the node knows.
CREATE FUNCTION take_1(p_node int8, p_lane text, p_timeline text) RETURNS int8
LANGUAGE plpgsql AS $$
DECLARE
    v_owner int8;
    v_epoch int8;
BEGIN
    PERFORM judge_1();
    IF NOT is_alive_1(p_node) THEN
        RETURN NULL;
    END IF;
    LOOP
        INSERT INTO lanes (lane, owner, epoch) VALUES (p_lane, p_node, nextval('epochs'))
        ON CONFLICT (lane) DO NOTHING RETURNING epoch INTO v_epoch;
        IF FOUND THEN
            RETURN v_epoch;
        END IF;
        SELECT owner, epoch INTO v_owner, v_epoch FROM lanes
        WHERE lane = p_lane FOR NO KEY UPDATE;
        -- Not found: its owner left it between these two statements.
        EXIT WHEN FOUND;
    END LOOP;
    IF v_owner = p_node THEN
        RETURN v_epoch;
    END IF;
    IF v_owner IS NOT NULL AND (p_timeline <> timeline_1() OR is_alive_1(v_owner)) THEN
        RETURN NULL;
    END IF;
    UPDATE lanes SET owner = p_node, epoch = nextval('epochs')
    WHERE lane = p_lane RETURNING epoch INTO v_epoch;
    RETURN v_epoch;
END $$;

-- Own up to `p_limit` lanes of these agents that have no living owner, and no more than 64. A call
-- whose answer was lost is repeated with its number, and gives the lanes that it gave before.
--
-- Plans are made for an index scan whatever the statistics say, because a session keeps the plan
-- that it made while the table was empty.
CREATE FUNCTION take_over_1(
    p_node int8, p_timeline text, p_call int8, p_is_repeated bool, p_agents text[], p_limit int4
) RETURNS TABLE (lane text, epoch int8)
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    v_dead int8[];
BEGIN
    PERFORM judge_1();
    IF p_timeline <> timeline_1() OR NOT is_alive_1(p_node) THEN
        RETURN;
    END IF;
    IF p_is_repeated THEN
        RETURN QUERY SELECT l.lane, l.epoch FROM lanes l
        WHERE l.owner = p_node AND l.taken_by = p_call;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT array_agg(n.node) INTO v_dead FROM nodes n
    CROSS JOIN LATERAL (SELECT FROM lanes l WHERE l.owner = n.node LIMIT 1) AS l
    WHERE n.dead_at IS NOT NULL;
    IF v_dead IS NULL AND NOT EXISTS (SELECT FROM lanes l WHERE l.owner IS NULL) THEN
        RETURN;
    END IF;
    -- Rows are found again by their place: one that was changed since is left alone. A condition
    -- would be checked anew with the old rows of other tables, and take lanes of living nodes.
    RETURN QUERY
    WITH freed AS MATERIALIZED (
        SELECT x.at, x.waiting_since
        FROM unnest(p_agents) AS a (agent) CROSS JOIN LATERAL (
            SELECT l.ctid AS at, l.waiting_since FROM lanes l
            WHERE l.owner IS NULL AND l.agent = a.agent
            -- By all columns of the index: without the first one, PostgreSQL would sort.
            ORDER BY l.owner, l.agent, l.waiting_since LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED
        ) AS x
    ), dead AS MATERIALIZED (
        SELECT x.at, x.waiting_since
        FROM unnest(v_dead) AS n (node) CROSS JOIN unnest(p_agents) AS a (agent)
        CROSS JOIN LATERAL (
            SELECT l.ctid AS at, l.waiting_since FROM lanes l
            WHERE l.owner = n.node AND l.agent = a.agent
            ORDER BY l.waiting_since LIMIT 64 FOR NO KEY UPDATE SKIP LOCKED
        ) AS x
    ), taken AS MATERIALIZED (
        SELECT f.at FROM (SELECT * FROM freed UNION ALL SELECT * FROM dead) AS f
        ORDER BY f.waiting_since LIMIT least(p_limit, 64)
    )
    UPDATE lanes l SET owner = p_node, epoch = nextval('epochs'), taken_by = p_call
    FROM taken t WHERE l.ctid = t.at RETURNING l.lane, l.epoch;
END $$;

-- Give up these lanes, sorted, each with its epoch or 0. Returns those that stay, because a request
-- waits in their inbox. A lane with tasks that have work to do is free for others.
CREATE FUNCTION leave_1(p_node int8, p_lanes text[], p_epochs int8[]) RETURNS SETOF text
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    v_own text[];
    v_stay text[];
BEGIN
    -- IS NOT DISTINCT FROM uses no index, as in append_1: lanes are found by their names.
    -- A node that posts a request tries to take the lane afterwards. Either it waits for this lock
    -- and then gets the lane, or its request is committed and is seen below.
    SELECT array_agg(l.lane) INTO v_own
    FROM unnest(p_lanes, p_epochs) AS t (lane, epoch) CROSS JOIN LATERAL (
        SELECT l.lane FROM lanes l
        WHERE l.lane = t.lane AND l.owner IS NOT DISTINCT FROM p_node AND t.epoch IN (0, l.epoch)
        LIMIT 1 FOR UPDATE
    ) AS l;
    SELECT coalesce(array_agg(o.lane), '{}') INTO v_stay FROM unnest(v_own) AS o (lane)
    CROSS JOIN LATERAL (
        SELECT FROM records r WHERE r.kind = 'inbox.1' AND r.scope = o.lane LIMIT 1
    ) AS r;
    UPDATE lanes l SET owner = NULL
    FROM unnest(v_own) AS o (lane) CROSS JOIN LATERAL (
        SELECT FROM tasks t WHERE t.lane = o.lane LIMIT 1
    ) AS t
    WHERE l.lane = o.lane AND l.lane <> ALL (v_stay);
    DELETE FROM lanes l
    WHERE l.lane = ANY (v_own) AND l.lane <> ALL (v_stay)
        AND l.owner IS NOT DISTINCT FROM p_node;
    RETURN QUERY SELECT unnest(v_stay);
END $$;

-- Delete the rows of nodes that have been dead for an hour, unless lanes name them. Free the lanes
-- whose owner has no row, which there are none of unless the database was repaired by hand.
CREATE FUNCTION forget_nodes_1() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_gone int8[];
BEGIN
    DELETE FROM nodes n WHERE n.dead_at < clock_timestamp() - interval '1 hour'
        AND NOT EXISTS (SELECT FROM lanes l WHERE l.owner = n.node);
    -- Looked for in one statement and changed in the next, which compares nothing but the numbers:
    -- no node ever gets the number of another.
    SELECT array_agg(DISTINCT l.owner) INTO v_gone FROM lanes l
    WHERE l.owner IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.node = l.owner);
    UPDATE lanes l SET owner = NULL WHERE l.owner = ANY (v_gone);
END $$;

-- How the nodes share the slots of these agents, in their order, and which nodes live.
CREATE FUNCTION read_slots_1(p_agents text[])
RETURNS TABLE (version int8, shares bytea, living int8[], at_ms int8) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM judge_1();
    RETURN QUERY SELECT coalesce(s.version, 0), coalesce(s.shares, '{}'),
        (SELECT array_agg(n.node) FROM nodes n WHERE n.dead_at IS NULL), now_ms()
    FROM unnest(p_agents) WITH ORDINALITY AS a (agent, i)
    LEFT JOIN slots s ON s.agent = a.agent ORDER BY a.i;
END $$;
