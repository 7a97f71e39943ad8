-- Statuses that this release knows. A release with a new status replaces the constraint in a migration of its own, one release before
-- it writes the status. Rows of before are checked by the next migration, which does not block writers.
ALTER TABLE delivery ADD CONSTRAINT delivery_status CHECK (status IN (
    'queued', 'sending', 'retrying', 'sent', 'delivered', 'failed', 'unknown', 'skipped', 'parked', 'cancelled', 'expired'
)) NOT VALID;
ALTER TABLE attempt ADD CONSTRAINT attempt_outcome CHECK (outcome IN (
    'sent', 'retry', 'failed', 'target_gone', 'pause_provider', 'unknown'
)) NOT VALID;
ALTER TABLE webhook_message ADD CONSTRAINT webhook_message_status CHECK (status IN ('pending', 'delivered', 'failed')) NOT VALID;
