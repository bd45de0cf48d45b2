CREATE TABLE outboxevent (
  id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
  type VARCHAR(255) NOT NULL, payload JSON);
