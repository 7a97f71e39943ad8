//! OpenAPI schemas for types from the crate `domain`, which does not depend on any OpenAPI library. Attributes of handlers and of structs name
//! them.

use domain::fields::MAX_IDENTIFIER;
use utoipa::openapi::schema::{AdditionalProperties, Type};
use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat};

/// Largest whole number of the API: 2^53 − 1.
const MAX_ID: i64 = (1 << 53) - 1;
/// Maximum length of a cursor in the schemas. Every real cursor is shorter.
const MAX_CURSOR: usize = 128;

/// Declares a type for each schema. Its doc comment is the description of the schema.
#[macro_export]
macro_rules! schema_words {
    ($($(#[doc = $doc:literal])* $name:ident = $schema:expr;)+) => { $(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                let schema: utoipa::openapi::ObjectBuilder = $schema;
                schema.description(Some(concat!($($doc),*).trim())).into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(stringify!($name))
            }
        }
    )+ };
}

schema_words! {
    /// An RFC 3339 date-time. Answers show it in UTC, with milliseconds.
    Time = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).examples(["2027-01-31T09:00:00.000Z"]);
    /// A whole number that the service assigned as an id.
    Id = whole_number().minimum(Some(0)).maximum(Some(MAX_ID)).examples([4096]);
    /// A count.
    Count = whole_number().minimum(Some(0)).maximum(Some(MAX_ID)).examples([3]);
    /// A position in a list, from `nextCursor` of an earlier answer. Any other text is a 400 (`invalid_cursor`).
    Cursor = text().max_length(Some(MAX_CURSOR)).pattern(Some("^[A-Za-z0-9_-]*$")).examples(["NDA5Ng"]);
    /// A UUID that the service assigned.
    Uuid = text().format(Some(SchemaFormat::Custom("uuid".to_owned()))).examples(["018f3c6e-7d1a-7cc2-b3a4-9a1f0f6f2b11"]);
    /// An identifier that the app chose: 1 to 255 bytes, without control characters.
    Identifier = text().min_length(Some(1)).max_length(Some(MAX_IDENTIFIER)).pattern(Some("^[^\\u0000-\\u001f\\u007f-\\u009f]*$")).examples(["ada"]);
    /// An identifier of a topic: 1 to 255 bytes, of the characters `A-Z a-z 0-9 : . _ -`.
    TopicIdentifier = text().min_length(Some(1)).max_length(Some(MAX_IDENTIFIER)).pattern(Some("^[A-Za-z0-9:._-]*$")).examples(["news"]);
    /// An identifier in a header: 1 to 255 printable ASCII characters, without spaces at the ends.
    HeaderIdentifier = text().min_length(Some(1)).max_length(Some(MAX_IDENTIFIER)).pattern(Some("^[!-~]([ -~]*[!-~])?$")).examples(["phone-1"]);
    /// A JSON object with any members.
    FreeObject = ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true))).examples([serde_json::json!({"orderId": 1007})]);
    /// A delivery channel.
    Channel = names(domain::Channel::ALL.iter().map(|channel| channel.as_str()));
    /// The state of a delivery. `docs/statuses.md` explains each state with each reason.
    Status = names(domain::Status::ALL.iter().map(|status| status.as_str()));
    /// The reason why a delivery was not made, why it waits, or how it ended. `docs/statuses.md` explains each reason, and how to fix its cause.
    Reason = names(domain::Reason::ALL.iter().map(|reason| reason.as_str()));
    /// The lane of a send. Bulk sends never delay transactional ones.
    Lane = names(domain::Lane::ALL.iter().map(|lane| lane.as_str()));
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn whole_number() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
}

/// Returns the schema of one of several words.
pub fn names(values: impl Iterator<Item = &'static str>) -> ObjectBuilder {
    text().enum_values(Some(values))
}
