//! Shapes of answers that several calls have.

use std::borrow::Cow;
use std::fmt::Display;

use serde::Serialize;
use serde_json::json;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use web::cursor;

use super::route::NamedSchemas;

web::schema_words! {
    /// A role. Each includes the roles before it.
    Role = web::vocabulary::names(domain::Role::ALL.iter().map(|role| role.as_str()));
    /// The state of a redrive.
    RedriveState = web::vocabulary::names(domain::redrive::RunState::ALL.iter().map(|state| state.as_str()));
}

/// Part of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Page<T> {
    data: Vec<T>,
    next_cursor: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn new(rows: impl IntoIterator<Item = impl Into<T>>, next: Option<impl Display>) -> Page<T> {
        Page { data: rows.into_iter().map(Into::into).collect(), next_cursor: next.map(cursor::write) }
    }

    /// Returns a list that has no further pages.
    pub(super) fn whole(rows: impl IntoIterator<Item = impl Into<T>>) -> Page<T> {
        Page::new(rows, None::<String>)
    }
}

impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let schema = json!({
            "type": "object",
            "description": "Part of a list.",
            "properties": {
                "data": {"type": "array", "items": {"$ref": format!("#/components/schemas/{}", T::name())}},
                "nextCursor": {
                    "type": ["string", "null"],
                    "description": "Null on the last page. A page may have fewer elements than `limit`, even none, although others follow.",
                },
            },
        });
        serde_json::from_value::<Schema>(schema)
            .map_or_else(|_| utoipa::openapi::Object::new().into(), RefOr::T)
    }
}

impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        Cow::Owned(format!("{}List", T::name()))
    }

    fn schemas(schemas: &mut NamedSchemas) {
        T::schemas(schemas);
        schemas.push((T::name().into_owned(), T::schema()));
    }
}

/// A number of changed objects.
#[derive(Serialize, ToSchema)]
#[schema(as = Changed)]
pub(super) struct ChangedBody {
    /// Number of objects that were changed.
    #[schema(value_type = web::vocabulary::Count)]
    pub(super) changed: u64,
}

/// A template with its version.
#[derive(Serialize, ToSchema)]
#[schema(as = UsedTemplate)]
pub(super) struct UsedTemplate {
    identifier: String,
    version: i32,
}

impl From<(String, i32)> for UsedTemplate {
    fn from((identifier, version): (String, i32)) -> UsedTemplate {
        UsedTemplate { identifier, version }
    }
}
