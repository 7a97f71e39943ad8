-- Calls that must not be repeated, receipts that come after the provider's yes, and limits of providers.

-- Set right before the call of a channel that must not be repeated: once the lease has ended, nobody can say what came
-- of it. It stays set with a status `unknown` that a claim gave, until a late answer or a receipt corrects that.
ALTER TABLE delivery ADD COLUMN calling boolean NOT NULL DEFAULT false;

ALTER TABLE attempt
    -- Parts that the message took, where the channel counts them.
    ADD COLUMN segments integer,
    -- Whether the provider may still say what became of it.
    ADD COLUMN awaits_receipt boolean NOT NULL DEFAULT false,
    -- What the provider said later of the message that it had taken; `delivered`, or the class of its answer.
    ADD COLUMN receipt text,
    ADD COLUMN receipt_code text,
    ADD COLUMN receipt_message text,
    ADD COLUMN receipt_at timestamptz;
-- By this a receipt that names the provider's own id finds the attempt. Of one id the latest attempt counts.
CREATE INDEX attempt_receipt ON attempt (app_id, provider, provider_id, ended_at) WHERE awaits_receipt;

-- The job of an attempt that awaits its receipt: another attempt needs the message. Removed at the receipt, or by age.
CREATE TABLE awaiting_receipt (
    app_id        bigint NOT NULL,
    delivery_id   uuid NOT NULL,
    user_number   bigint NOT NULL,
    stream        text NOT NULL,
    message       bytea NOT NULL,
    kept_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (app_id, delivery_id)
);
CREATE INDEX awaiting_receipt_age ON awaiting_receipt (kept_at);
CREATE INDEX awaiting_receipt_user ON awaiting_receipt (app_id, user_number);

-- Receipts that came before the answer that they belong to was settled. They are looked at again, ever less often.
CREATE TABLE early_receipt (
    id            uuid PRIMARY KEY,
    app_id        bigint NOT NULL,
    -- The delivery and perhaps its attempt, or the provider and its own id.
    delivery_id   uuid,
    attempt       integer,
    provider      text,
    provider_id   text,
    answer        jsonb NOT NULL,
    received_at   timestamptz NOT NULL,
    next_look_at  timestamptz NOT NULL DEFAULT now(),
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX early_receipt_look ON early_receipt (next_look_at);

-- Calls a second that one worker makes of the provider at most.
ALTER TABLE provider ADD COLUMN max_per_second integer CHECK (max_per_second > 0);
