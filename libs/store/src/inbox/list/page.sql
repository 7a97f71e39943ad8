-- A page of a user's inbox, newest first, with the counters of the list. If the page has no items, the result is one row that
-- contains only the counters. The index inbox_item_list has all columns of the conditions, so items before the page are skipped without
-- reading their rows.
WITH place AS MATERIALIZED (
  SELECT i.id FROM inbox_item i
  WHERE i.app_id = $1 AND i.user_number = $2 AND i.deleted_at IS NULL
    AND ($3::text IS NULL OR i.category_id = (SELECT id FROM category WHERE app_id = $1 AND identifier = $3))
    AND ($4::boolean IS NULL OR (i.clicked_at IS NOT NULL) = $4)
    AND ($5::boolean IS NULL OR (i.seen_at IS NOT NULL) = $5)
    AND ($6::boolean IS NULL OR (i.state IS NOT NULL) = $6)
    AND (i.archived_at IS NOT NULL) = $7 AND (i.snoozed_until IS NOT NULL) = $8
    AND (i.created_at, i.id) < ($9, $10)
  ORDER BY i.created_at DESC, i.id DESC OFFSET $11 LIMIT $12
)
SELECT counter.total AS "total?", counter.unread AS "unread?", counter.unseen AS "unseen?", counter.hidden AS "hidden?",
  item.id AS "id?", item.user_number AS "user_number?", item.send_id AS "send_id?", item.created_at AS "created_at?", item.seen_at AS "seen_at?",
  item.clicked_at AS "clicked_at?", item.state AS "state?", item.archived_at AS "archived_at?", item.snoozed_until AS "snoozed_until?",
  item.content AS "content?", item.category_id AS "category_id?", item.category_identifier AS "category_identifier?",
  item.category_name AS "category_name?"
FROM (VALUES (1)) AS one
LEFT JOIN (
  SELECT total, unread, unseen, hidden FROM inbox_counter WHERE app_id = $1
    AND app_id BETWEEN (SELECT $1::bigint) AND (SELECT $1::bigint) AND user_number BETWEEN (SELECT $2::bigint) AND (SELECT $2::bigint)
  ORDER BY user_number DESC LIMIT 1
) AS counter ON true
LEFT JOIN LATERAL (
  SELECT i.id, i.user_number, i.send_id, i.created_at, i.seen_at, i.clicked_at, i.state, i.archived_at, i.snoozed_until,
    i.content::text AS content, c.id AS category_id, c.identifier AS category_identifier, c.name AS category_name
  FROM place JOIN inbox_item i ON i.app_id = $1 AND i.id = place.id
  LEFT JOIN category c ON c.app_id = i.app_id AND c.id = i.category_id
) AS item ON true
ORDER BY item.created_at DESC, item.id DESC
