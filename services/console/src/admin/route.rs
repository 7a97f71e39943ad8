//! A call of the admin API: one value has its path, its handler and its description.

use std::pin::Pin;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use domain::body::{Schemas, Value};
use operations::Permission;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use super::call::Call;
use super::refused::Refused;

pub(super) type Handling<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, Refused>> + 'a>>;
pub(super) type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// A call. The server finds it by method and path, and the OpenAPI document describes it.
pub(super) struct Route {
    pub(super) method: &'static str,
    /// Below `/v1/admin`.
    pub(super) path: &'static str,
    /// The `operationId`.
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    /// Lines of the description; the first one is the summary.
    pub(super) about: &'static [&'static str],
    /// Permission of the use case that the handler calls.
    pub(super) permission: Permission,
    pub(super) query: &'static [Parameter],
    pub(super) body: Option<fn(&mut Schemas) -> Value>,
    /// Statuses of the failures that only some calls have.
    pub(super) fails: &'static [&'static str],
    /// Status of success. An answer with 204 has no body.
    pub(super) status: u16,
    /// Adds the schema of the answer, and returns its name.
    pub(super) answer: fn(&mut NamedSchemas) -> String,
    pub(super) handler: for<'a> fn(&'a Call<'a>) -> Handling<'a>,
}

/// A parameter of the query.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) schema: fn() -> Value,
    pub(super) about: &'static str,
}

/// Body of an answer that has none.
#[derive(Serialize, ToSchema)]
pub(super) struct Nothing {}

impl Route {
    /// Returns the names of the parameters in the path.
    pub(super) fn path_parameters(&self) -> impl Iterator<Item = &'static str> {
        let path = self.path;
        path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the values of the path's parameters if the path matches.
    pub(super) fn match_path(&self, segments: &[String]) -> Option<Vec<String>> {
        let own = self.path.strip_prefix('/')?.split('/');
        if own.clone().count() != segments.len() {
            return None;
        }
        let mut values = Vec::new();
        for (own, given) in own.zip(segments) {
            if own.starts_with('{') {
                values.push(given.clone());
            } else if own != given {
                return None;
            }
        }
        Some(values)
    }
}

pub(super) fn answer_schema<T: ToSchema>(schemas: &mut NamedSchemas) -> String {
    T::schemas(schemas);
    let name = T::name().into_owned();
    schemas.push((name.clone(), T::schema()));
    name
}

/// Builds the answer of a handler. Answers are never stored, because they contain personal data.
pub(super) fn answer(status: u16, body: &impl Serialize) -> Result<HttpResponse, Refused> {
    let status = StatusCode::from_u16(status).map_err(|error| Refused::defect(&error))?;
    let mut response = HttpResponse::build(status);
    Ok(if status == StatusCode::NO_CONTENT { response.finish() } else { response.json(body) })
}

/// Declares the calls. Each has its description, method, path, id, tag and permission, then its parameters, body and further failures, and the
/// status and type of its answer, which its handler returns.
macro_rules! routes {
    (@body) => { None };
    (@body $body:ty) => { Some(<$body as domain::body::Described>::schema) };
    ($name:ident: $(
        $(#[doc = $about:literal])+
        $method:ident $path:literal $id:literal $tag:literal $permission:ident
        $(query [$($parameter:expr),+])? $(body [$body:ty])? $(fails [$($fails:literal),+])?
        => $status:literal $answer:ty = $handler:path;
    )+) => {
        pub(super) static $name: &[$crate::admin::route::Route] = &[$($crate::admin::route::Route {
            method: stringify!($method),
            path: $path,
            id: $id,
            tag: $tag,
            about: &[$($about),+],
            permission: operations::Permission::$permission,
            query: &[$($($parameter),+)?],
            body: routes!(@body $($body)?),
            fails: &[$($($fails),+)?],
            status: $status,
            answer: $crate::admin::route::answer_schema::<$answer>,
            handler: |call| Box::pin(async move {
                let body: $answer = $handler(call).await?;
                $crate::admin::route::answer($status, &body)
            }),
        }),+];
    };
}
pub(super) use routes;

/// Parameters that several calls have.
pub(super) mod parameter {
    use super::{Parameter, Value, json};

    /// Maximum number of elements of a page.
    pub(in crate::admin) const MOST: i64 = 1_000;

    pub(in crate::admin) const LIMIT: Parameter = Parameter {
        name: "limit",
        schema: || json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": MOST, "default": 50}),
        about: "Maximum number of elements.",
    };
    pub(in crate::admin) const CURSOR: Parameter = Parameter {
        name: "cursor",
        schema: || json!({"$ref": "#/components/schemas/Cursor"}),
        about: "The `nextCursor` of an earlier answer with the same filter.",
    };
    pub(in crate::admin) const SINCE: Parameter =
        Parameter { name: "since", schema: time, about: "Only what happened at this time or later." };
    pub(in crate::admin) const APP: Parameter = Parameter {
        name: "app",
        schema: text,
        about: "Only this app, by name or id. Without it, the token needs its role in all apps.",
    };
    pub(in crate::admin) const CHANNEL: Parameter =
        Parameter { name: "channel", schema: channel, about: "Only deliveries over this channel." };

    pub(in crate::admin) fn text() -> Value {
        json!({"type": "string", "minLength": 1})
    }

    pub(in crate::admin) fn uuid() -> Value {
        json!({"type": "string", "format": "uuid"})
    }

    pub(in crate::admin) fn flag() -> Value {
        json!({"type": "boolean"})
    }

    pub(in crate::admin) fn time() -> Value {
        json!({"$ref": "#/components/schemas/Time"})
    }

    pub(in crate::admin) fn channel() -> Value {
        json!({"$ref": "#/components/schemas/Channel"})
    }

    pub(in crate::admin) fn status() -> Value {
        json!({"$ref": "#/components/schemas/Status"})
    }
}
