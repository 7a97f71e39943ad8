-- The audit log is append-only, also for the owner of the schema. An operator who has to shorten it disables the trigger
-- in the same transaction: ALTER TABLE audit DISABLE TRIGGER audit_is_append_only.
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

CREATE INDEX audit_by_app ON audit (app_id, id DESC);
