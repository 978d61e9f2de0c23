-- When the entries of a row were committed, by the clock of the database; NULL for rows of before. The
-- default belongs to the table, so nodes of an earlier release write the time as well. It is the time
-- at which the statement began, so all rows of a commit have the same.
ALTER TABLE events ADD COLUMN committed_ms int8;
ALTER TABLE events ALTER COLUMN committed_ms
    SET DEFAULT (extract(epoch FROM statement_timestamp()) * 1000)::int8;

-- Give rows the times that a copy of another store has for them: id of the task, sequence and time of
-- each row. VOLATILE: it sees the rows that the statement that calls it has written before.
CREATE FUNCTION set_event_times_1(p_task text[], p_seq int4[], p_ms int8[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
    UPDATE events AS e SET committed_ms = r.ms
    FROM (
        SELECT t.key, c.seq, c.ms
        FROM unnest(p_task, p_seq, p_ms) AS c (task, seq, ms) JOIN tasks AS t ON t.id = c.task
    ) AS r
    WHERE e.task = r.key AND e.seq = r.seq
$$;
