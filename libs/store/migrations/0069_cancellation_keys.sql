-- Written before a send enters the log, so that a cancellation finds sends that are not planned yet.
CREATE TABLE cancellation_key (
  app_id bigint NOT NULL,
  send_id uuid NOT NULL,
  key text NOT NULL,
  -- Identifier of the template that the send names; NULL if it names none, or names it by number.
  template text,
  keep_until timestamptz NOT NULL,
  -- Planning cancels a send that has this time.
  cancelled_at timestamptz,
  -- True once the deliveries that were already planned have ended too.
  ended boolean NOT NULL DEFAULT false,
  PRIMARY KEY (app_id, send_id)
);
CREATE INDEX cancellation_key_sends ON cancellation_key (app_id, key, send_id);
CREATE INDEX cancellation_key_age ON cancellation_key (keep_until);
