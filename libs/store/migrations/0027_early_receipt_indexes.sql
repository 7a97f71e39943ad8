-- By these an erasure finds the receipts of a user's deliveries that came early, and reads no others.
CREATE INDEX early_receipt_delivery ON early_receipt (app_id, delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX early_receipt_provider ON early_receipt (app_id, provider, provider_id) WHERE delivery_id IS NULL;
