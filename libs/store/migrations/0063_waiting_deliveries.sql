-- The delivery that waits for a timer, and why. NULL: no delivery waits, or an earlier release set the timer.
ALTER TABLE timer
    ADD COLUMN delivery_id uuid,
    ADD COLUMN wait_reason text,
    -- The provider that is to be called, and the answer for which the delivery waits.
    ADD COLUMN provider text,
    ADD COLUMN code text;
