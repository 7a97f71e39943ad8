//! Templates. Each template has one or more versions, whose content never changes.

use domain::id::TemplateId;
use domain::send::TemplateRef;
use domain::{Action, Actor, AppId, Timestamp};
use serde_json::{Value, json};
use sqlx::PgConnection;

use crate::{Control, Error, database::audit::AuditEntry};

#[derive(Clone, Copy, Debug)]
pub struct NewTemplate<'a> {
    /// The same for all versions.
    pub identifier: &'a str,
    pub name: &'a str,
    /// Category of sends that use this template and name no category.
    pub category: Option<&'a str>,
    /// Content by channel.
    pub channels: &'a Value,
    /// MJML that the HTML of the email was compiled from.
    pub mjml: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TemplateVersion {
    /// Shared by all versions.
    pub id: TemplateId,
    pub identifier: String,
    /// Starts at 1.
    pub version: i32,
    pub name: String,
    /// Category of sends that use this template and name no category.
    pub category: Option<String>,
    /// Content by channel.
    pub channels: Value,
    /// MJML that the HTML of the email was compiled from. Sends do not read it.
    pub mjml: Option<String>,
}

/// A template's newest version, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSummary {
    pub id: TemplateId,
    pub identifier: String,
    pub version: i32,
    pub name: String,
    pub category: Option<String>,
    /// In the order in which the template lists them.
    pub channels: Vec<String>,
    /// Creation of this version.
    pub created_at: Timestamp,
}

impl Control<'_> {
    /// Adds a version, and creates the template if it does not exist. Returns the template's id and the number of the new version, from 1.
    pub async fn put_template(
        self,
        app: AppId,
        template: NewTemplate<'_>,
        actor: &Actor,
    ) -> Result<(TemplateId, i32), Error> {
        let mut transaction = self.0.begin().await?;
        let put = add_version(&mut transaction, app, template, actor).await?;
        transaction.commit().await?;
        Ok(put)
    }

    /// Adds a version after the version `newest`, which is 0 for a template that does not exist. Returns None, and changes nothing, if
    /// the newest version has another number.
    pub async fn put_template_after(
        self,
        app: AppId,
        template: NewTemplate<'_>,
        newest: i32,
        actor: &Actor,
    ) -> Result<Option<(TemplateId, i32)>, Error> {
        let mut transaction = self.0.begin().await?;
        let put = add_version(&mut transaction, app, template, actor).await?;
        if put.1 - 1 != newest {
            transaction.rollback().await?;
            return Ok(None);
        }
        transaction.commit().await?;
        Ok(Some(put))
    }

    /// Writes the row of the audit log for test sends, which have no row of their own in the database before they are planned.
    pub async fn note_test_send(
        self,
        app: AppId,
        identifier: &str,
        sent: Value,
        actor: &Actor,
    ) -> Result<(), Error> {
        let mut connection = self.0.pool.acquire().await?;
        let entry = AuditEntry::new(app, actor, Action::TemplateTestSend, identifier);
        entry.changed(None, Some(sent)).write(&mut connection).await
    }

    pub async fn list_templates(self, app: AppId) -> Result<Vec<TemplateSummary>, Error> {
        let rows = sqlx::query_as!(
            TemplateSummary,
            r#"SELECT t.id, t.identifier, t.version, v.name, v.category, v.created_at,
                    ARRAY(SELECT json_object_keys(v.channels)) AS "channels!"
             FROM template t
             JOIN template_version v ON (v.app_id, v.template_id, v.version) = (t.app_id, t.id, t.version)
             WHERE t.app_id = $1 ORDER BY t.identifier"#,
            app.0
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows)
    }

    /// Newest version first.
    pub async fn template_versions(
        self,
        app: AppId,
        identifier: &str,
        limit: i64,
    ) -> Result<Vec<TemplateSummary>, Error> {
        let rows = sqlx::query_as!(
            TemplateSummary,
            r#"SELECT t.id, t.identifier, v.version, v.name, v.category, v.created_at,
                    ARRAY(SELECT json_object_keys(v.channels)) AS "channels!"
             FROM template t JOIN template_version v ON (v.app_id, v.template_id) = (t.app_id, t.id)
             WHERE t.app_id = $1 AND t.identifier = $2 ORDER BY v.version DESC LIMIT $3"#,
            app.0,
            identifier,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows)
    }

    /// Finds the newest version of the template that a send names.
    pub async fn find_template(
        self,
        app: AppId,
        template: &TemplateRef,
    ) -> Result<Option<TemplateVersion>, Error> {
        let (identifier, id) = match template {
            TemplateRef::Identifier(identifier) => (Some(identifier), None),
            TemplateRef::Id(id) => (None, Some(id.0)),
        };
        let version = sqlx::query_as!(
            TemplateVersion,
            "SELECT t.id, t.identifier, v.version, v.name, v.category, v.channels, v.mjml
             FROM template t
             JOIN template_version v ON (v.app_id, v.template_id, v.version) = (t.app_id, t.id, t.version)
             WHERE t.app_id = $1 AND (t.identifier = $2 OR t.id = $3)",
            app.0,
            identifier,
            id
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(version)
    }

    pub async fn template_version(
        self,
        app: AppId,
        id: TemplateId,
        version: i32,
    ) -> Result<Option<TemplateVersion>, Error> {
        let version = sqlx::query_as!(
            TemplateVersion,
            "SELECT t.id, t.identifier, v.version, v.name, v.category, v.channels, v.mjml
             FROM template t JOIN template_version v ON (v.app_id, v.template_id) = (t.app_id, t.id)
             WHERE t.app_id = $1 AND t.id = $2 AND v.version = $3",
            app.0,
            id.0,
            version
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(version)
    }
}

async fn add_version(
    connection: &mut PgConnection,
    app: AppId,
    template: NewTemplate<'_>,
    actor: &Actor,
) -> Result<(TemplateId, i32), Error> {
    // Of two concurrent calls, the second waits here until the first ends. Therefore version numbers have neither gaps
    // nor duplicates.
    let put = sqlx::query!(
        "INSERT INTO template (app_id, identifier, version) VALUES ($1, $2, 1)
             ON CONFLICT (app_id, identifier) DO UPDATE SET version = template.version + 1
             RETURNING id, version",
        app.0,
        template.identifier
    )
    .fetch_one(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO template_version (app_id, template_id, version, name, category, channels, mjml)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        app.0,
        put.id,
        put.version,
        template.name,
        template.category,
        template.channels,
        template.mjml
    )
    .execute(&mut *connection)
    .await?;
    let version = |version: i32| (version > 0).then(|| json!({"version": version}));
    AuditEntry::new(app, actor, Action::TemplatePut, template.identifier)
        .changed(version(put.version - 1), version(put.version))
        .write(connection)
        .await?;
    Ok((TemplateId(put.id), put.version))
}
