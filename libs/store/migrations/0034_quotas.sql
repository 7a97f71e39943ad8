-- How many users and devices each app has, kept as they come and go, so that a quota is checked without counting them.

-- The sum over an app's rows is the count. A transaction adds to any row that no other one holds, else to a new one: it
-- never waits here, and there are never more rows than there were transactions at a time.
CREATE TABLE app_usage (
    app_id        bigint NOT NULL REFERENCES app,
    kind          text NOT NULL,
    slot          bigint GENERATED ALWAYS AS IDENTITY,
    used          bigint NOT NULL,
    PRIMARY KEY (app_id, kind, slot)
) WITH (fillfactor = 50);

CREATE FUNCTION add_to_usage(app bigint, counted text, change bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE app_usage SET used = used + change WHERE (app_id, kind, slot) = (
        SELECT app_id, kind, slot FROM app_usage WHERE app_id = app AND kind = counted LIMIT 1 FOR UPDATE SKIP LOCKED);
    IF NOT FOUND THEN
        INSERT INTO app_usage (app_id, kind, used) VALUES (app, counted, change);
    END IF;
END $$;

-- Once per statement: TG_ARGV[0] is what the table counts as.
CREATE FUNCTION count_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_to_usage(app_id, TG_ARGV[0], count(*)) FROM added GROUP BY app_id;
    RETURN NULL;
END $$;
CREATE FUNCTION count_removed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM add_to_usage(app_id, TG_ARGV[0], -count(*)) FROM removed GROUP BY app_id;
    RETURN NULL;
END $$;

CREATE TRIGGER app_user_added AFTER INSERT ON app_user REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('users');
CREATE TRIGGER app_user_removed AFTER DELETE ON app_user REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('users');
CREATE TRIGGER device_added AFTER INSERT ON device REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION count_added('devices');
CREATE TRIGGER device_removed AFTER DELETE ON device REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION count_removed('devices');

-- The triggers hold off writers until this commits, so what is counted here is what there is.
INSERT INTO app_usage (app_id, kind, used) SELECT app_id, 'users', count(*) FROM app_user GROUP BY app_id;
INSERT INTO app_usage (app_id, kind, used) SELECT app_id, 'devices', count(*) FROM device GROUP BY app_id;

-- An app that holds more than half of a default keeps room to grow to twice what it has.
UPDATE app SET max_users = 2 * used FROM app_usage WHERE app_id = id AND kind = 'users' AND used > 500000;
UPDATE app SET max_devices = 2 * used FROM app_usage WHERE app_id = id AND kind = 'devices' AND used > 1000000;
UPDATE app SET max_categories = 2 * held FROM (SELECT app_id, count(*) AS held FROM category GROUP BY app_id) AS categories
    WHERE app_id = id AND held > 500;
