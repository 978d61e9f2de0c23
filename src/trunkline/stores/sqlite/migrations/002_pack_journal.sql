-- Journal rows may hold several entries; those of one entry stay as they are.
-- Retention finds its tasks by state, scope after scope.
DROP INDEX tasks_ended;
