-- A page of the (recipient, channel) pairs of a request. Parameters: app $1, send $2, statuses by reason $3, position after which the
-- page starts (recipient $4, channel $8, delivery $9), filters (recipient $5, channel $6, status $7), maximum number of pairs $10,
-- and last recipient $11.
-- A delivery waits if it has a timer; deliveries that wait also have the status that the row contains.
-- An inbox item counts as delivered if it exists, or if the retention of the inbox may have removed it.
SELECT p.recipient_index, CASE WHEN e.user_number IS NULL THEN nullif(p.identifier, '') END AS identifier,
  turn.planned_at AS "planned_at?", channel AS "channel!", status AS "status!", reason, id, target, provider, settled_at
FROM planned_recipient p
LEFT JOIN LATERAL (
  SELECT planned_at FROM plan WHERE app_id = $1 AND send_id = $2 AND plan.turn = p.turn
) AS turn ON true
LEFT JOIN erased e ON (e.app_id, e.user_number) = (p.app_id, p.user_number)
CROSS JOIN LATERAL (
  SELECT 'inApp' AS channel, CASE WHEN EXISTS (
           SELECT FROM inbox_item i
           WHERE i.app_id = $1 AND i.send_id = $2 AND i.user_number = p.user_number
         ) OR EXISTS (
           SELECT FROM request q, installation n
           WHERE q.app_id = $1 AND q.send_id = $2 AND coalesce(q.send_at, q.accepted_at) < n.inbox_removed_before
         ) THEN 'delivered' ELSE 'queued' END AS status,
         NULL AS reason, NULL::uuid AS id, NULL AS target, NULL AS provider,
         NULL::timestamptz AS settled_at
  WHERE p.in_app
  UNION ALL
  SELECT split_part(skip, ':', 1), coalesce($3::jsonb ->> split_part(skip, ':', 2), 'skipped'),
         coalesce((SELECT split_part(skip, ':', 2) || ':' || split_part(detail, ':', 2) FROM unnest(p.details) AS detail
           WHERE split_part(detail, ':', 1) = split_part(skip, ':', 1)), split_part(skip, ':', 2)), NULL, NULL, NULL, turn.planned_at
  FROM unnest(p.skips) AS skip
  UNION ALL
  SELECT d.channel, d.status, d.reason || coalesce(':' || d.detail, ''), d.id, CASE WHEN e.user_number IS NULL THEN nullif(d.target, '') END, d.provider,
         d.settled_at
  FROM delivery d
  WHERE d.app_id = $1 AND d.send_id = $2 AND d.recipient_index = p.recipient_index
) AS pair
WHERE p.app_id = $1 AND p.send_id = $2 AND p.recipient_index >= $4 AND p.recipient_index <= $11
  AND ($5::text IS NULL OR p.identifier = $5 AND e.user_number IS NULL)
  AND ($6::text IS NULL OR channel = $6)
  AND ($7::text IS NULL OR status = $7 OR $7 = 'waiting' AND status IN ('queued', 'retrying')
    AND EXISTS (SELECT FROM timer t WHERE t.delivery_id = pair.id AND t.app_id = $1))
  AND (p.recipient_index, channel, coalesce(id, '00000000-0000-0000-0000-000000000000')) > ($4, $8, $9)
ORDER BY p.recipient_index, channel, id NULLS FIRST LIMIT $10
