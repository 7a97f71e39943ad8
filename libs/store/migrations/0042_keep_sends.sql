-- Number of days for which the app's sends are kept, if that is shorter than the configured time.
ALTER TABLE app ADD COLUMN keep_sends integer CHECK (keep_sends > 0);

-- The least id that a send accepted at this time can have (UUIDv7, RFC 9562 section 5.7): 48 bits of milliseconds.
CREATE FUNCTION send_id_at(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(greatest(0, floor(extract(epoch FROM at) * 1000)::bigint)), 12, '0') || repeat('0', 20))::uuid
$$;
