-- What a caller without a proof may change: the targets of the one device whose secret it holds.
ALTER TABLE device
    -- SHA-256 of the secret that the first connect returned. NULL: none, or a proven caller has used the device since.
    ADD COLUMN proof_digest  bytea,
    -- The push token that the device registered, such as fcm:{token}; of a device with a secret, the one that it may replace.
    ADD COLUMN push_target    text,
    -- Whether a caller with a proof connected it: callers without one neither change nor evict it.
    ADD COLUMN proven         boolean NOT NULL DEFAULT true;
