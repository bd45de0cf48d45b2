-- The least rights for the users of an outbox, to be run in its database. The user who runs the migrations needs none
-- of these, but CREATE, ALTER, INDEX, SELECT, INSERT, UPDATE and REFERENCES on the database.
--
-- An operator, who replays, discards, purges, pauses and resumes, is a relay with these additional rights:
--   GRANT INSERT, DELETE ON outbox_event_control TO operator;
--   GRANT SELECT, INSERT ON outbox_event_audit TO operator;

-- The schema version is read when a store is opened.
GRANT SELECT ON outbox_event_schema TO writer, relay, viewer;

-- Writes events. MariaDB requires SELECT on the whole table for an INSERT that returns its seq. On MySQL, SELECT (seq,
-- event_id, locked_by) is sufficient.
GRANT INSERT, SELECT ON outbox_event TO writer;

-- Claims, settles and purges. Cannot insert events.
GRANT SELECT, UPDATE, DELETE ON outbox_event TO relay;
GRANT SELECT ON outbox_event_control TO relay;
-- Needed only for archiving.
GRANT SELECT, INSERT, DELETE ON outbox_event_archive TO relay;

-- Reads everything, payloads included.
GRANT SELECT ON outbox_event TO viewer;
GRANT SELECT ON outbox_event_control TO viewer;
GRANT SELECT ON outbox_event_audit TO viewer;
GRANT SELECT ON outbox_event_archive TO viewer;
