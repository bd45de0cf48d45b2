-- Writes every row a second time. Leases end, because their holders have no token.
UPDATE `{table}` AS o
  JOIN (SELECT event_id, ROW_NUMBER() OVER (ORDER BY created_at, event_id) AS seq FROM `{table}`) AS n
  ON n.event_id = o.event_id
SET o.seq = n.seq,
  o.size = COALESCE(LENGTH(o.payload) + COALESCE(LENGTH(o.headers), 0), -1), o.locked_by = NULL, o.locked_at = NULL,
  o.aggregate_type = COALESCE(o.aggregate_type, '__GLOBAL__');

