//! Template versions with which sends are planned.

use std::sync::Arc;

use domain::id::TemplateId;
use domain::send::TemplateRef;
use sqlx::{PgConnection, Row};

use crate::Error;
use crate::control::template;
use crate::sends::chunk::Chunk;
use crate::sends::facts::Facts;

/// Reads the template versions of chunks. All chunks of a send use the version with which its first chunk was planned; a
/// new send uses the newest version.
pub(super) async fn read(
    connection: &mut PgConnection,
    chunks: &[Chunk],
    facts: &mut Facts,
) -> Result<(), Error> {
    let named: Vec<_> = chunks
        .iter()
        .enumerate()
        .filter_map(|(index, chunk)| chunk.send.template.as_ref().map(|template| (index, chunk, template)))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT named.turn, t.id, t.identifier, v.version, v.name, v.category, v.channels
         FROM unnest($1::int[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[])
           AS named (turn, app_id, send_id, identifier, id)
         JOIN template t ON t.app_id = named.app_id AND (t.identifier = named.identifier OR t.id = named.id)
         LEFT JOIN request r ON (r.app_id, r.send_id) = (named.app_id, named.send_id)
         JOIN template_version v ON (v.app_id, v.template_id, v.version)
           = (t.app_id, t.id, coalesce(r.template_version, t.version))",
    )
    .bind(named.iter().map(|(index, ..)| i32::try_from(*index).unwrap_or(i32::MAX)).collect::<Vec<_>>())
    .bind(named.iter().map(|(_, chunk, _)| chunk.app.0).collect::<Vec<_>>())
    .bind(named.iter().map(|(_, chunk, _)| chunk.send_id.0).collect::<Vec<_>>())
    .bind(named.iter().map(|(.., template)| identifier_of(template)).collect::<Vec<_>>())
    .bind(named.iter().map(|(.., template)| number_of(template)).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    for row in rows {
        let index: i32 = row.try_get("turn")?;
        if let Some(slot) = usize::try_from(index).ok().and_then(|index| facts.templates.get_mut(index)) {
            *slot = Some(Arc::new(template::read_version(&row)?));
        }
    }
    Ok(())
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
