-- Writes every row again, in the order of creation. A number that is too small to be microseconds is taken for
-- seconds or milliseconds. Leases end, because their holders have no token.
INSERT INTO "{table}" (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status,
                       attempts, available_at, created_at, done_at, last_error)
SELECT event_id, event_type, coalesce(aggregate_type, '__GLOBAL__'), aggregate_id, tenant_id,
  CASE WHEN typeof(payload) IN ('text', 'blob') THEN payload ELSE CAST(payload AS TEXT) END,
  CAST(headers AS TEXT), status, attempts, available, created, done, last_error
FROM (
  SELECT *, rowid AS old_row,
    CASE
      WHEN typeof(available_at) = 'text' THEN CAST(strftime('%s', available_at) AS INTEGER) * 1000000
        + CAST(substr(strftime('%f', available_at), 4) AS INTEGER) * 1000
      WHEN available_at < 100000000000 THEN available_at * 1000000
      WHEN available_at < 100000000000000 THEN available_at * 1000
      ELSE available_at
    END AS available,
    CASE
      WHEN typeof(created_at) = 'text' THEN CAST(strftime('%s', created_at) AS INTEGER) * 1000000
        + CAST(substr(strftime('%f', created_at), 4) AS INTEGER) * 1000
      WHEN created_at < 100000000000 THEN created_at * 1000000
      WHEN created_at < 100000000000000 THEN created_at * 1000
      ELSE created_at
    END AS created,
    CASE
      WHEN typeof(done_at) = 'text' THEN CAST(strftime('%s', done_at) AS INTEGER) * 1000000
        + CAST(substr(strftime('%f', done_at), 4) AS INTEGER) * 1000
      WHEN done_at < 100000000000 THEN done_at * 1000000
      WHEN done_at < 100000000000000 THEN done_at * 1000
      ELSE done_at
    END AS done
  FROM "{table}_adopted"
)
ORDER BY created, old_row;
DROP TABLE "{table}_adopted";
