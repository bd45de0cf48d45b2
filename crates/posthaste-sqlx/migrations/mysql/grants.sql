-- The least rights for those who use an outbox, in its database. Whoever runs the migrations needs none of
-- these, but CREATE, ALTER, INDEX, SELECT, INSERT, UPDATE and REFERENCES on the database.
--
-- An operator, who replays, discards, purges, pauses and resumes, is a relay with these rights more:
--   GRANT INSERT, DELETE ON outbox_event_control TO operator;
--   GRANT SELECT, INSERT ON outbox_event_audit TO operator;

-- Opening an outbox reads its version.
GRANT SELECT ON outbox_event_schema TO writer, relay, viewer;

-- Writes events. MariaDB asks for all of SELECT where an INSERT answers its seq; on MySQL
-- SELECT (seq, event_id, locked_by) is enough.
GRANT INSERT, SELECT ON outbox_event TO writer;

-- Claims, settles and purges. Cannot write an event of its own.
GRANT SELECT, UPDATE, DELETE ON outbox_event TO relay;
GRANT SELECT ON outbox_event_control TO relay;
-- Only where something is archived.
GRANT SELECT, INSERT, DELETE ON outbox_event_archive TO relay;

-- Looks at everything, payloads included.
GRANT SELECT ON outbox_event TO viewer;
GRANT SELECT ON outbox_event_control TO viewer;
GRANT SELECT ON outbox_event_audit TO viewer;
GRANT SELECT ON outbox_event_archive TO viewer;
