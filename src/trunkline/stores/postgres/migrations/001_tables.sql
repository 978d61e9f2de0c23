-- What every node reads and writes. Texts compare by their bytes (COLLATE "C"), as in the other
-- stores. Times in milliseconds are those of the runtime; leases and due times go by the clock of
-- the database.

-- One row: what code may use this database.
CREATE TABLE trunkline (
    -- The number of the last migration.
    version int4 NOT NULL,
    -- The oldest version of the schema whose code still works with this one.
    min_code int4 NOT NULL
);
INSERT INTO trunkline (version, min_code) VALUES (0, 1);

-- Nodes, one row per start of a process. `node` is random.
CREATE TABLE nodes (
    node int8 PRIMARY KEY,
    -- For operators: JSON with host, process, release and start.
    about text NOT NULL,
    lease_until timestamptz NOT NULL,
    -- Set once, when the others gave it up or when it resigned.
    dead_at timestamptz
) WITH (fillfactor = 50);

-- Writers, one row per store that a process opened: the last batch and its answer, for a writer that
-- lost the connection and has to ask again.
CREATE TABLE writers (
    writer int8 PRIMARY KEY,
    batch int8 NOT NULL,
    used_at timestamptz NOT NULL,
    epochs int8[],
    codes int4[],
    found int8[],
    skipped int4[]
) WITH (fillfactor = 50);

-- Lanes that a node owns, or that have to be taken over.
CREATE SEQUENCE epochs;
CREATE TABLE lanes (
    lane text COLLATE "C" PRIMARY KEY,
    agent text COLLATE "C" NOT NULL GENERATED ALWAYS AS ((lane::jsonb) ->> 0) STORED,
    owner int8,
    epoch int8 NOT NULL,
    -- The call that took the lane over, for a node that lost the answer and has to ask again.
    taken_by int8,
    waiting_since timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);
CREATE INDEX lanes_by_owner ON lanes (owner, agent, waiting_since);

-- How the nodes share the slots of an agent: JSON, which only the cluster reads.
CREATE TABLE slots (
    agent text COLLATE "C" PRIMARY KEY,
    -- Rises with every change. A node that changes the row knows the version that it read.
    version int8 NOT NULL,
    shares bytea NOT NULL
) WITH (fillfactor = 50);

-- Scopes, interned: every task and every index entry would carry the texts otherwise.
CREATE TABLE scopes (
    id int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    agent text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    principal text COLLATE "C" NOT NULL,
    UNIQUE (agent, tenant, principal)
);

-- Heads.
CREATE SEQUENCE task_numbers;
CREATE TABLE tasks (
    -- `month << 40 | number`, with the month of its creation counted from 2000 (see task_key).
    key int8 PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    scope int4 NOT NULL,
    context text COLLATE "C" NOT NULL,
    -- The lane of a task that has work to do, for the node that takes the lane over.
    lane text COLLATE "C",
    created_ms int8 NOT NULL,
    status_ms int8 NOT NULL,
    last_seq int4 NOT NULL,
    -- As in the SQLite store: 1 and 2 have work to do, those above 4 are terminal.
    state int2 NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX tasks_by_state ON tasks (scope, state, status_ms, key);
CREATE INDEX tasks_by_context ON tasks (scope, context);
CREATE INDEX tasks_by_lane ON tasks (lane) WHERE lane IS NOT NULL;

-- The journal. Entries that were committed together share the row of the last one, without a kind,
-- as in the SQLite store. By the month of the task, so that old months are small tables that
-- nothing writes to.
CREATE TABLE events (
    task int8 NOT NULL,
    seq int4 NOT NULL,
    kind text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (task, seq)
) PARTITION BY RANGE (task);

-- Not by month: a read of one task would have to consider the tables of all months.
CREATE TABLE snapshots (
    task int8 PRIMARY KEY,
    seq int4 NOT NULL,
    body bytea NOT NULL,
    artifacts bytea NOT NULL
);

-- How many tasks a scope has in a state: each writer counts in rows of its own, because a shared row
-- would let the commits of two nodes wait for each other. The sum counts. Writer 0 has the sum of
-- those that were folded, which may be any at any time: a living one begins again at 0.
CREATE TABLE counts (
    state int2 NOT NULL,
    scope int4 NOT NULL,
    writer int8 NOT NULL,
    n int8 NOT NULL,
    PRIMARY KEY (state, scope, writer)
) WITH (fillfactor = 50);

-- What is too large for one commit: texts, by the id that entries and snapshots refer to, and
-- bodies of these two. Such a body has its place taken by a mark and the number of the value, which
-- no JSON begins with (see rows.py).
CREATE SEQUENCE value_numbers;
CREATE TABLE large_values (
    value int8 PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    task int8 NOT NULL,
    size int8 NOT NULL
);
CREATE INDEX large_values_by_task ON large_values (task);
-- Values that no task has, because they are being written or their task is gone.
CREATE TABLE loose_values (
    value int8 PRIMARY KEY,
    -- From when on it can be deleted.
    until timestamptz NOT NULL
);
CREATE TABLE slices (
    value int8 NOT NULL,
    number int4 NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (value, number)
);
ALTER TABLE slices ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE records (
    kind text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version int8 NOT NULL,
    count int8 NOT NULL DEFAULT 0,
    attempts int4 NOT NULL DEFAULT 0,
    due_ms int8,
    -- The task that it goes with.
    task int8,
    -- A JSON array; NULL for none.
    tags text COLLATE "C",
    body bytea NOT NULL DEFAULT '',
    PRIMARY KEY (kind, scope, id)
) WITH (fillfactor = 80);
CREATE INDEX records_by_task ON records (task) WHERE task IS NOT NULL;
CREATE INDEX records_by_due ON records (kind, scope, due_ms, id) WHERE due_ms IS NOT NULL;

CREATE TABLE record_tags (
    kind text COLLATE "C" NOT NULL,
    tag text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, tag, scope, id)
);

-- One row per scope with due records: a claim goes through these.
CREATE TABLE due_scopes (
    kind text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    -- When its turn comes: the first due time of its records, or earlier until a claim looks, but
    -- not before the end of its last turn.
    due_ms int8 NOT NULL,
    -- The record that is claimed, and until when.
    held_id text COLLATE "C",
    held_until_ms int8 NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, scope)
) WITH (fillfactor = 80);
-- By the time from which on it can be claimed: scopes that are held cost a claim nothing.
CREATE INDEX due_scopes_by_time ON due_scopes (kind, greatest(due_ms, held_until_ms + 1));

-- PostgreSQL compresses bodies of more than 2 KB. Its own method takes half of the CPU of a batch with
-- texts of 4 KB. Most servers have lz4, which takes less.
DO $$
BEGIN
    ALTER TABLE events ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE snapshots ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE snapshots ALTER COLUMN artifacts SET COMPRESSION lz4;
    ALTER TABLE records ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    NULL;
END $$;

-- Milliseconds since 1970, by the clock of the database.
CREATE FUNCTION now_ms() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8
$$;

-- The first key of the month in which a time lies.
CREATE FUNCTION month_key(at timestamptz) RETURNS int8 LANGUAGE sql STABLE AS $$
    SELECT ((extract(year FROM at AT TIME ZONE 'UTC')::int8 - 2000) * 12
        + extract(month FROM at AT TIME ZONE 'UTC')::int8) << 40
$$;

CREATE FUNCTION task_key() RETURNS int8 LANGUAGE sql VOLATILE AS $$
    SELECT month_key(statement_timestamp()) | nextval('task_numbers')
$$;

-- The table for the journals of a month, unless it exists. Made apart and then attached: to create
-- it in place would lock out every read and write of the journal. Two nodes may try at once.
CREATE FUNCTION add_month(at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name text := 'events_' || to_char(at AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
    -- "TRNK" and a number, as in schema.py.
    PERFORM pg_advisory_xact_lock(x'54524E4B'::int4, 2);
    IF to_regclass(format('%I', name)) IS NULL THEN
        EXECUTE format('CREATE TABLE %I (LIKE events INCLUDING ALL)', name);
        EXECUTE format(
            'ALTER TABLE events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
            name, month_key(at),
            -- Months are counted without gaps.
            month_key(at) + (1::int8 << 40)
        );
    END IF;
END $$;
SELECT add_month(clock_timestamp() + n * interval '1 month') FROM generate_series(0, 2) AS n;
