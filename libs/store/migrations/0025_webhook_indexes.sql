-- In the order in which messages are taken, so that nothing that waits is sorted; and counted without a look at the rows.
DROP INDEX webhook_message_due;
CREATE INDEX webhook_message_due ON webhook_message (app_id, endpoint_id, next_at, number) WHERE status = 'pending';
DROP INDEX webhook_message_under_way;
CREATE INDEX webhook_message_under_way ON webhook_message (app_id, endpoint_id, next_at) WHERE token IS NOT NULL;
-- Under another condition than the first, which says the same: so nothing that is due is looked for here, whatever the statistics say.
DROP INDEX webhook_message_order;
CREATE INDEX webhook_message_order ON webhook_message (app_id, endpoint_id, subject, number) WHERE settled_at IS NULL;
