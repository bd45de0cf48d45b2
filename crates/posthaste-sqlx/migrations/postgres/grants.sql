-- The least rights for the users of an outbox. The user who ran the migrations owns everything and needs no grants.
-- Connect as "writer", "relay" or "viewer", or grant these roles to your own users.
--
-- An operator, who replays, discards, purges, pauses and resumes, is a relay with four additional rights:
--   GRANT INSERT, DELETE ON "{table}_control" TO operator;
--   GRANT SELECT, INSERT ON "{table}_audit" TO operator;

GRANT USAGE ON SCHEMA "{schema}" TO writer, relay, viewer;
-- The schema version is read when a store is opened.
GRANT SELECT ON "{table}_schema" TO writer, relay, viewer;

-- Writes events. It can read only their seq and id. (Only tokio-postgres reads xmin.)
GRANT INSERT (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type,
    schema_version, headers, payload, payload_bytes, created_at, available_at, inserted_at,
    locked_by, locked_at, lease_until, lease_token),
  SELECT (seq, event_id, xmin) ON "{table}" TO writer;

-- Only for tokio-postgres: its INSERT may find out that a savepoint is open, which the application can roll back
-- unnoticed. The Writer then releases the lease that it inserted the row with, so that any engine can claim the row.
GRANT UPDATE (locked_by, locked_at, lease_until, lease_token) ON "{table}" TO writer;

-- Claims, settles and purges. Cannot insert events.
GRANT SELECT, UPDATE, DELETE ON "{table}" TO relay;
GRANT SELECT ON "{table}_control" TO relay;
-- Needed only for archiving.
GRANT SELECT, INSERT ON "{table}_archive" TO relay;
GRANT EXECUTE ON FUNCTION "{table}_archive_day"(date), "{table}_archive_drop"(timestamptz, bigint) TO relay;

-- Reads everything, payloads included.
GRANT SELECT ON "{table}", "{table}_control", "{table}_audit", "{table}_archive" TO viewer;
