-- Puts the table into the order of insertion. Writes every row a third time.
ALTER TABLE `{table}`
  DROP PRIMARY KEY,
  MODIFY COLUMN seq BIGINT NOT NULL AUTO_INCREMENT,
  ADD COLUMN phase TINYINT GENERATED ALWAYS AS (CASE WHEN status = 2 THEN 0 ELSE status END) STORED,
  ADD COLUMN phase_at DATETIME(6) GENERATED ALWAYS AS
    (GREATEST(CASE WHEN status IN (0, 2) THEN available_at ELSE COALESCE(done_at, inserted_at) END,
      TIMESTAMP'1000-01-01 00:00:00')) STORED,
  ADD PRIMARY KEY (seq),
  ADD UNIQUE KEY `{table}_id` (event_id),
  ADD KEY `{table}_due` (phase, phase_at, seq),
  ADD KEY `{table}_phase` (phase, seq),
  ADD KEY `{table}_parked` (parked, seq),
  ADD CONSTRAINT `{table}_has_id` CHECK (event_id <> ''),
  ADD CONSTRAINT `{table}_has_type` CHECK (event_type <> ''),
  ADD CONSTRAINT `{table}_status` CHECK (status IN (0, 1, 2, 3)),
  ADD CONSTRAINT `{table}_one_payload` CHECK (size >= 0);

