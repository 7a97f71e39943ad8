//! Schemas that only this API has, next to those of all APIs.

pub(crate) use web::vocabulary::{
    Channel, Count, Cursor, FreeObject, HeaderIdentifier, Id, Identifier, Lane, Reason, Status, Time,
    TopicIdentifier, Uuid,
};

use crate::openapi::page::FILES;

web::schema_words! {
    /// A file that the pages load.
    PageFile = web::vocabulary::names(FILES.into_iter());
}
