-- MJML that the HTML of the email was compiled from; NULL if the author wrote HTML.
ALTER TABLE template_version ADD COLUMN mjml text;
-- Names of the secrets, each with the time in milliseconds at which it was set; null for a time that is not known. NULL if an earlier
-- release set all of them.
ALTER TABLE provider ADD COLUMN set_times jsonb;
