//! Use cases of operators, backends and users. Commands, the API and the console call these functions.
//!
//! A use case is a function `name(operations, caller, input) -> Result<output, OperationError>`. It first checks with
//! [`Caller::may`] that the caller has the permission, then validates the input, and changes the data together with the row in
//! the audit log. A use case about the data of a user takes the user from the caller, never from the input. Inputs and outputs are data: the caller of this crate reads arguments and bodies, and renders texts and
//! status codes.

pub mod apps;
pub mod audit;
pub mod caller;
pub mod categories;
pub mod connect;
pub mod devices;
pub mod error;
pub mod explain;
pub mod inbox;
pub mod installation;
mod operations;
pub mod operators;
pub mod overview;
pub mod parked;
pub mod people;
pub mod permission;
pub mod preferences;
pub mod profile;
pub mod providers;
pub mod publisher;
pub mod receipts;
pub mod redrives;
pub mod refused_calls;
pub mod requests;
pub mod sends;
pub mod suppressions;
pub mod templates;
pub mod tokens;
pub mod topics;
pub mod users;
mod waiting;
pub mod webhooks;

pub use caller::{Caller, Grant, OwnUser, ProviderAccount};
pub use error::{Conflict, Object, OperationError};
pub use inbox::Inboxes;
pub use operations::{MasterKeySource, Operations};
pub use permission::Permission;
pub use publisher::Publisher;
pub use sends::Sends;
