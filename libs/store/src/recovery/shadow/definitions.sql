-- Generates statements that create the tables $3 in schema $1 with the same definitions as in schema $2: columns, checks, keys, indexes
-- with the same names, storage, owner and grants on tables. Roles with privileges on a table also get USAGE on the schema, so that
-- erasures can delete rows there. `CREATE TABLE … LIKE` alone would omit the grants and give the indexes other names, but migrations
-- find indexes by name. $4 is UNLOGGED or empty.
WITH original AS (
  SELECT c.oid, c.relname AS name, c.reloptions, c.relowner, c.relacl
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $2::text AND c.relkind = 'r' AND c.relname = ANY($3::text[])
)
SELECT 1 AS "step!",
  format('CREATE %s TABLE %I.%I (LIKE %I.%I INCLUDING ALL EXCLUDING INDEXES)', $4::text, $1::text, name, $2, name) AS "statement!"
FROM original
UNION ALL
SELECT 2, format('ALTER TABLE %I.%I SET (%s)', $1, name, array_to_string(reloptions, ', '))
FROM original WHERE reloptions IS NOT NULL
UNION ALL
SELECT 3, format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', $1, name, k.conname, pg_get_constraintdef(k.oid))
FROM original o JOIN pg_constraint k ON k.conrelid = o.oid AND k.contype IN ('p', 'u')
UNION ALL
SELECT 4, replace(pg_get_indexdef(i.indexrelid), format(' ON %I.%I ', $2, name), format(' ON %I.%I ', $1, name))
FROM original o JOIN pg_index i ON i.indrelid = o.oid
WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
UNION ALL
SELECT 4, format('ALTER INDEX %I.%I SET (%s)', $1, k.conname, array_to_string(i.reloptions, ', '))
FROM original o JOIN pg_constraint k ON k.conrelid = o.oid AND k.contype IN ('p', 'u')
  JOIN pg_class i ON i.oid = k.conindid AND i.reloptions IS NOT NULL
UNION ALL
SELECT 5, format('GRANT %s ON %I.%I TO %s%s', granted.privilege_type, $1, name,
  CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END,
  CASE WHEN granted.is_grantable THEN ' WITH GRANT OPTION' END)
FROM original o, aclexplode(o.relacl) AS granted WHERE granted.grantee <> o.relowner
UNION ALL
SELECT 6, format('GRANT USAGE ON SCHEMA %I TO %s', $1,
  CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END)
FROM original o, LATERAL (SELECT grantee FROM aclexplode(o.relacl) UNION SELECT o.relowner) AS granted
UNION ALL
SELECT 7, format('ALTER TABLE %I.%I OWNER TO %I', $1, name, pg_get_userbyid(relowner))
FROM original WHERE relowner <> (SELECT oid FROM pg_roles WHERE rolname = current_user)
ORDER BY "step!"
