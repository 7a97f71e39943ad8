-- Addresses that only callers without a proof wrote, such as email:{address} or fcm:{token}. The push token of a device that no
-- caller with a proof connected is unproven too; that table holds it.
ALTER TABLE app_user ADD COLUMN unproven jsonb NOT NULL DEFAULT '[]';
-- False if no caller with a proof stored the subscription.
ALTER TABLE web_push_subscription ADD COLUMN proven boolean NOT NULL DEFAULT true;
UPDATE web_push_subscription s SET proven = false FROM device d
    WHERE (d.app_id, d.user_number, d.device_id) = (s.app_id, s.user_number, s.device_id) AND NOT d.proven;
