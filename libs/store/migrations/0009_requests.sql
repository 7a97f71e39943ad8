-- By this a request tells that its send was set aside.
CREATE INDEX parked_send ON parked (app_id, send_id) WHERE send_id IS NOT NULL;
