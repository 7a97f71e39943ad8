use std::collections::HashMap;

use domain::AppId;
use domain::id::TemplateId;
use domain::send::TemplateRef;
use sqlx::PgConnection;

use crate::Error;
use crate::control::template::TemplateVersion;
use crate::database::columns::{columns, integer};
use crate::sends::planned_chunk::PlannedChunk;

/// The first chunk of a send uses the newest version. The other chunks of the send use the same version as the first.
pub(super) async fn read(connection: &mut PgConnection, chunks: &mut [PlannedChunk]) -> Result<(), Error> {
    let numbered = chunks.iter().enumerate();
    let named: Vec<_> = numbered
        .filter_map(|(index, PlannedChunk { chunk, .. })| Some((index, chunk, chunk.send.template.as_ref()?)))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    columns! { (index, chunk, template) in named =>
        indexes = integer(*index),
        apps = chunk.app.0,
        sends = chunk.send_id.0,
        identifiers = identifier_of(template),
        ids = number_of(template),
    }
    let rows = sqlx::query!(
        r#"SELECT named.chunk AS "chunk!", t.id, t.identifier, v.version, v.name, v.category, v.channels
           FROM unnest($1::int[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[])
             AS named (chunk, app_id, send_id, identifier, id)
           JOIN template t ON t.app_id = named.app_id AND (t.identifier = named.identifier OR t.id = named.id)
           LEFT JOIN request r ON (r.app_id, r.send_id) = (named.app_id, named.send_id)
           JOIN template_version v ON (v.app_id, v.template_id, v.version)
             = (t.app_id, t.id, coalesce(r.template_version, t.version))"#,
        &indexes,
        &apps,
        &sends,
        &identifiers as &[Option<&str>],
        &ids as &[Option<i64>]
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        if let Some(planned) = usize::try_from(row.chunk).ok().and_then(|index| chunks.get_mut(index)) {
            planned.template = Some(TemplateVersion {
                id: TemplateId(row.id),
                identifier: row.identifier,
                version: row.version,
                name: row.name,
                category: row.category,
                channels: row.channels,
                mjml: None,
            });
        }
    }
    Ok(())
}

/// Reads the newest version of the template that each app has set as the layout of its emails.
pub(super) async fn read_email_layouts(
    connection: &mut PgConnection,
    apps: &[i64],
) -> Result<HashMap<AppId, TemplateVersion>, Error> {
    if apps.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        "SELECT app.id AS app_id, t.id, t.identifier, v.version, v.name, v.category, v.channels
         FROM app
         JOIN template t ON (t.app_id, t.identifier) = (app.id, app.email_layout)
         JOIN template_version v ON (v.app_id, v.template_id, v.version) = (t.app_id, t.id, t.version)
         WHERE app.id = ANY($1)",
        apps
    )
    .fetch_all(connection)
    .await?;
    let layouts = rows.into_iter().map(|row| {
        let version = TemplateVersion {
            id: TemplateId(row.id),
            identifier: row.identifier,
            version: row.version,
            name: row.name,
            category: row.category,
            channels: row.channels,
            mjml: None,
        };
        (AppId(row.app_id), version)
    });
    Ok(layouts.collect())
}

fn identifier_of(template: &TemplateRef) -> Option<&str> {
    match template {
        TemplateRef::Identifier(identifier) => Some(identifier),
        TemplateRef::Id(_) => None,
    }
}

fn number_of(template: &TemplateRef) -> Option<i64> {
    match template {
        TemplateRef::Identifier(_) => None,
        TemplateRef::Id(TemplateId(id)) => Some(*id),
    }
}
