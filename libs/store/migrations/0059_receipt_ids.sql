-- A provider may write the id of a message differently in its answer and in its receipts. Receipts find attempts by this key, which ignores
-- the case of the id, and zeros and spaces around it. Building an index blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX attempt_receipt_key ON attempt (app_id, provider, ltrim(lower(btrim(provider_id) COLLATE "C"), '0'), ended_at)
  WHERE awaits_receipt;

ALTER TABLE early_receipt
    -- Notation of the provider's ids in receipts. NULL: the id is exactly that of the provider's answer.
    ADD COLUMN notation text,
    -- The last four digits of the numbers in the receipt.
    ADD COLUMN number_ends text[],
    -- Time at which the receipt was counted as missed, because no message has its id.
    ADD COLUMN missed_at timestamptz;
CREATE INDEX early_receipt_uncounted ON early_receipt (created_at) WHERE missed_at IS NULL AND delivery_id IS NULL;
