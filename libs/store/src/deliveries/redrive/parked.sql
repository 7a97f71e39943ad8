-- The parked messages $1, earliest first, with the facts that decide whether a redrive publishes them.
SELECT p.id, p.app_id, app.name AS "app_name?", p.send_id, p.delivery_id, p.user_number, r.identifier AS "identifier?",
  d.target AS "target?", p.stream, p.cause, p.parked_at, p.message,
  p.delivery_id IS NOT NULL AND d.status IS DISTINCT FROM 'parked' AS "is_settled!",
  e.user_number IS NOT NULL AS "is_erased!",
  q.cancelled_at IS NOT NULL AS "is_cancelled!",
  coalesce(d.expires_at <= now(), false) AS "is_expired!",
  EXISTS (
    SELECT FROM suppression s WHERE (s.app_id, s.channel, s.target) = (d.app_id, d.channel, d.target)
  ) OR EXISTS (
    SELECT FROM suppression s WHERE (s.app_id, mailbox_key(s.channel, s.target)) = (d.app_id, mailbox_key(d.channel, d.target))
  ) AS "is_suppressed!",
  EXISTS (
    SELECT FROM inbox_item i WHERE (i.app_id, i.send_id, i.user_number) = (d.app_id, d.send_id, d.user_number)
      AND i.clicked_at IS NOT NULL
  ) AS "is_read!",
  EXISTS (
    SELECT FROM delivery o
    WHERE (o.app_id, o.send_id, o.recipient_index, o.channel) = (d.app_id, d.send_id, d.recipient_index, d.channel)
      AND o.id <> d.id AND o.status IN ('sent', 'delivered')
  ) AS "is_delivered!",
  NOT EXISTS (
    SELECT FROM provider WHERE provider.app_id = d.app_id AND provider.identifier = d.provider AND provider.enabled
  ) AS "is_provider_gone!"
FROM parked p
LEFT JOIN app ON app.id = p.app_id
LEFT JOIN delivery d ON (d.app_id, d.id) = (p.app_id, p.delivery_id)
LEFT JOIN planned_recipient r ON (r.app_id, r.send_id, r.recipient_index) = (d.app_id, d.send_id, d.recipient_index)
LEFT JOIN erased e ON (e.app_id, e.user_number) = (p.app_id, p.user_number)
LEFT JOIN request q ON (q.app_id, q.send_id) = (p.app_id, p.send_id)
WHERE p.id = ANY($1)
ORDER BY p.parked_at, p.id
