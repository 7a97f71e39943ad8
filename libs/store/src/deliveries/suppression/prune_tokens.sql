-- Removes the dead push tokens $3 of the push service $1 from all profiles that contain them. Records the users of these profiles in
-- the rows of `suppression`.
WITH dead AS (
  SELECT dead.app_id, d.user_number, dead.target, substr(dead.target, strpos(dead.target, ':') + 1) AS token
  FROM unnest($2::bigint[], $3::text[], $4::uuid[]) AS dead (app_id, target, id) JOIN delivery d USING (app_id, id)
), holder AS (
  SELECT t.app_id, t.user_number, t.target FROM push_token t JOIN dead USING (app_id, target)
  UNION
  SELECT app_id, user_number, target FROM dead
), held AS (
  SELECT u.app_id, u.number, dead.target, dead.token, t.registered_at
  FROM holder
  JOIN dead ON (dead.app_id, dead.target) = (holder.app_id, holder.target)
  JOIN app_user u ON (u.app_id, u.number) = (holder.app_id, holder.user_number)
  LEFT JOIN push_token t ON (t.app_id, t.target, t.user_number) = (u.app_id, dead.target, u.number)
  WHERE jsonb_typeof(u.profile #> ARRAY[$1, 'tokens']) = 'array'
    AND jsonb_exists(u.profile #> ARRAY[$1, 'tokens'], dead.token)
), pruned AS (
  UPDATE app_user u SET updated_at = now(),
    profile = jsonb_set(u.profile, ARRAY[$1, 'tokens'], (u.profile #> ARRAY[$1, 'tokens']) - mine.tokens)
  FROM (SELECT app_id, number, array_agg(token) AS tokens FROM held GROUP BY app_id, number) AS mine
  WHERE (u.app_id, u.number) = (mine.app_id, mine.number)
), unregistered AS (
  DELETE FROM push_token t USING dead WHERE (t.app_id, t.target) = (dead.app_id, dead.target)
)
UPDATE suppression s SET pruned = jsonb_build_object('users', kept.users)
FROM (
  SELECT app_id, target, jsonb_agg(jsonb_build_object('number', number, 'registeredAt', registered_at)) AS users
  FROM held GROUP BY app_id, target
) AS kept WHERE (s.app_id, s.channel, s.target) = (kept.app_id, 'mobilePush', kept.target)
