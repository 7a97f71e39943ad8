-- Stores the decisions of new chunks. One statement, because for a small batch each statement costs more than its rows.
WITH recipients AS (
  INSERT INTO planned_recipient (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips, details)
  SELECT app_id, send_id, turn, recipient_index, identifier, user_number, in_app, string_to_array(skips, ','),
    string_to_array(details, ',')
  FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::bigint[], $7::bool[], $8::text[], $9::text[])
    AS new (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips, details)
)
INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, expires_at)
SELECT * FROM unnest($10::bigint[], $11::uuid[], $12::uuid[], $13::int[], $14::bigint[], $15::text[], $16::text[],
  $17::timestamptz[])
ON CONFLICT DO NOTHING
