-- Look of the emails of an app that have no template: name, logo, accent colour, postal address, the texts of the button and of the
-- unsubscribe link, and the template that replaces the layout. NULL for the default of each.
ALTER TABLE app
    ADD COLUMN brand_name text,
    ADD COLUMN brand_logo text,
    ADD COLUMN brand_color text,
    ADD COLUMN brand_address text,
    ADD COLUMN email_button text,
    ADD COLUMN email_unsubscribe text,
    ADD COLUMN email_layout text;
