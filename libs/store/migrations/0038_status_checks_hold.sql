-- Reads each table once without blocking its writers.
SET LOCAL statement_timeout = 0;
ALTER TABLE delivery VALIDATE CONSTRAINT delivery_status;
ALTER TABLE attempt VALIDATE CONSTRAINT attempt_outcome;
ALTER TABLE webhook_message VALIDATE CONSTRAINT webhook_message_status;
