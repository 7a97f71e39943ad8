SET LOCAL statement_timeout = 0;
-- A lookup by its primary key must not use this index, so it does not begin with the app (docs/decisions/0060).
CREATE INDEX timer_waiting ON timer (delivery_id, app_id) WHERE delivery_id IS NOT NULL;
