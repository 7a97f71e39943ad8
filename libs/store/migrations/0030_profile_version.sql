-- Counts the writes of a profile, so that a change which was computed from one version replaces that version alone. A
-- trigger counts: every statement that writes profiles is covered, and so are processes of the release before this one.
ALTER TABLE app_user ADD COLUMN version bigint NOT NULL DEFAULT 0;

CREATE FUNCTION count_profile_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END
$$;

CREATE TRIGGER app_user_version BEFORE UPDATE OF profile ON app_user
    FOR EACH ROW EXECUTE FUNCTION count_profile_write();
