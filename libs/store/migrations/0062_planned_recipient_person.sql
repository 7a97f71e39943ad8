-- The sends of a user, latest first, for `GET /v3/requests?recipient=`. Building an index blocks only writers. A later migration drops
-- `planned_recipient_user`, which this index replaces.
SET LOCAL statement_timeout = 0;
CREATE INDEX planned_recipient_person ON planned_recipient (user_number, app_id, send_id) WHERE user_number IS NOT NULL;
