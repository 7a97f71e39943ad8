//! Templates. Each template has one or more versions, whose content never changes.

use domain::id::TemplateId;
use domain::send::TemplateRef;
use domain::{Action, Actor, AppId, Timestamp};
use serde_json::{Value, json};

use crate::{Control, Error, database::audit::AuditEntry};

/// A version to add to a template.
#[derive(Clone, Copy, Debug)]
pub struct NewTemplate<'a> {
    /// Unique in the app; the same for all versions.
    pub identifier: &'a str,
    /// Display name.
    pub name: &'a str,
    /// Identifier of the category for sends that use this template and name no category.
    pub category: Option<&'a str>,
    /// Content by channel.
    pub channels: &'a Value,
}

/// One version of a template. It never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateVersion {
    /// Id of the template, shared by all versions.
    pub id: TemplateId,
    /// Unique in the app.
    pub identifier: String,
    /// Number of the version, from 1.
    pub version: i32,
    /// Display name.
    pub name: String,
    /// Identifier of the category for sends that use this template and name no category.
    pub category: Option<String>,
    /// Content by channel.
    pub channels: Value,
}

/// A template's newest version, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSummary {
    /// Id of the template, shared by all versions.
    pub id: TemplateId,
    /// Unique in the app.
    pub identifier: String,
    /// The newest version, from 1.
    pub version: i32,
    /// Display name.
    pub name: String,
    /// Identifier of the category for sends that use this template and name no category.
    pub category: Option<String>,
    /// Channels for which the template has content, in the order in which the template lists them.
    pub channels: Vec<String>,
    /// Time at which this version was created.
    pub created_at: Timestamp,
}

impl Control<'_> {
    /// Adds a version to a template, and creates the template if it does not exist. Returns the template's id and the number
    /// of the new version, from 1.
    ///
    /// # Errors
    /// Returns an error if the database fails or rejects a value, or if the app does not exist.
    pub async fn put_template(
        self,
        app: AppId,
        template: NewTemplate<'_>,
        actor: &Actor,
    ) -> Result<(TemplateId, i32), Error> {
        let mut transaction = self.0.begin().await?;
        // Of two concurrent calls, the second waits here until the first ends. Therefore version numbers have neither gaps
        // nor duplicates.
        let put = sqlx::query!(
            "INSERT INTO template (app_id, identifier, version) VALUES ($1, $2, 1)
             ON CONFLICT (app_id, identifier) DO UPDATE SET version = template.version + 1
             RETURNING id, version",
            app.0,
            template.identifier
        )
        .fetch_one(&mut *transaction)
        .await?;
        sqlx::query!(
            "INSERT INTO template_version (app_id, template_id, version, name, category, channels)
             VALUES ($1, $2, $3, $4, $5, $6)",
            app.0,
            put.id,
            put.version,
            template.name,
            template.category,
            template.channels
        )
        .execute(&mut *transaction)
        .await?;
        let version = |version: i32| (version > 0).then(|| json!({"version": version}));
        AuditEntry::new(app, actor, Action::TemplatePut, template.identifier)
            .changed(version(put.version - 1), version(put.version))
            .write(&mut transaction)
            .await?;
        transaction.commit().await?;
        Ok((TemplateId(put.id), put.version))
    }

    /// Lists the newest version of each template of the app, ordered by identifier.
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

    /// Finds the newest version of the template that a send names. Returns None if the template does not exist.
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
            "SELECT t.id, t.identifier, v.version, v.name, v.category, v.channels
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

    /// Finds one version of a template, for instance the version that a send was planned with. Returns None if the version
    /// does not exist.
    pub async fn template_version(
        self,
        app: AppId,
        id: TemplateId,
        version: i32,
    ) -> Result<Option<TemplateVersion>, Error> {
        let version = sqlx::query_as!(
            TemplateVersion,
            "SELECT t.id, t.identifier, v.version, v.name, v.category, v.channels
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
