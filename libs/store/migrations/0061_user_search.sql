-- Users are found by email address, phone number, and the beginning of an identifier, address or name. The statements of
-- libs/store/src/directory/user/search.rs repeat these expressions. Values are cut, because an index row has a limit. Building an index
-- blocks only writers.
SET LOCAL statement_timeout = 0;
CREATE INDEX app_user_email ON app_user
    (app_id, mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C", number);
CREATE INDEX app_user_phone ON app_user
    (app_id, regexp_replace(replace(left(coalesce(profile ->> 'phoneNumber', profile ->> 'phone'), 255), '(0)', ''), '[^+0-9]', '', 'g')
      COLLATE "C", number)
    WHERE regexp_replace(replace(left(coalesce(profile ->> 'phoneNumber', profile ->> 'phone'), 255), '(0)', ''), '[^+0-9]', '', 'g')
      IS NOT NULL;
CREATE INDEX app_user_identifier ON app_user (app_id, lower(identifier) COLLATE "C", number);
CREATE INDEX app_user_name ON app_user (app_id, lower(left(profile ->> 'name', 255)) COLLATE "C", number)
    WHERE lower(left(profile ->> 'name', 255)) IS NOT NULL;
