"""The store that several nodes share: PostgreSQL, by psycopg (the extra `postgres`)."""
