-- Whoever answers STOP is known by the number alone: the last delivery to it is what the suppression goes with.
CREATE INDEX delivery_sms_target ON delivery (app_id, target) WHERE channel = 'sms';
