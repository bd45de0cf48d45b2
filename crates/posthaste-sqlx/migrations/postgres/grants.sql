-- The least rights for those who use an outbox. Whoever ran the migrations owns everything and needs
-- none of these. Connect as "writer", "relay" or "viewer", or grant these roles to your own users.
--
-- An operator, who replays, discards, purges, pauses and resumes, is a relay with four rights more:
--   GRANT INSERT, DELETE ON "{table}_control" TO operator;
--   GRANT SELECT, INSERT ON "{table}_audit" TO operator;

GRANT USAGE ON SCHEMA "{schema}" TO writer, relay, viewer;
-- Opening an outbox reads its version.
GRANT SELECT ON "{table}_schema" TO writer, relay, viewer;

-- Writes events, and sees of them nothing but that they are there. (xmin is read by tokio-postgres alone.)
GRANT INSERT (event_id, event_type, aggregate_type, aggregate_id, tenant_id, topic, content_type,
    schema_version, headers, payload, payload_bytes, created_at, available_at, inserted_at,
    locked_by, locked_at, lease_token),
  SELECT (seq, event_id, xmin) ON "{table}" TO writer;

-- For tokio-postgres alone: it learns only from its INSERT that a savepoint was open, which may be rolled back
-- unseen. Then it gives the row, which was born leased to an engine, back to all of them.
GRANT UPDATE (available_at, locked_by, locked_at, lease_token) ON "{table}" TO writer;

-- Claims, settles and purges. Cannot write an event of its own.
GRANT SELECT, UPDATE, DELETE ON "{table}" TO relay;
GRANT SELECT ON "{table}_control" TO relay;
-- Only where something is archived.
GRANT SELECT, INSERT ON "{table}_archive" TO relay;
GRANT EXECUTE ON FUNCTION "{table}_archive_day"(date), "{table}_archive_drop"(timestamptz, bigint) TO relay;

-- Looks at everything, payloads included.
GRANT SELECT ON "{table}", "{table}_control", "{table}_audit", "{table}_archive" TO viewer;
