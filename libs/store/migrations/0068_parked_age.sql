-- The console lists the parked messages of an app by age. Building an index blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX parked_age ON parked (app_id, parked_at, id);
