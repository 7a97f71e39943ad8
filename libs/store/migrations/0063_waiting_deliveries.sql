-- The delivery that waits for a timer, and why. NULL: no delivery waits, or an earlier release set the timer.
ALTER TABLE timer
    ADD COLUMN delivery_id uuid,
    ADD COLUMN wait_reason text,
    -- The provider that is to be called, and the answer for which the delivery waits.
    ADD COLUMN provider text,
    ADD COLUMN code text;
-- A lookup by its primary key must not use this index, so it does not begin with the app (docs/decisions/0060).
CREATE INDEX timer_waiting ON timer (delivery_id, app_id) WHERE delivery_id IS NOT NULL;
