//! The pages. Each module has the handlers of a page and the types that its template shows.

pub(crate) mod cancel;
pub(crate) mod erase;
pub(crate) mod explain;
pub(crate) mod find;
pub(crate) mod installation;
pub(crate) mod lift;
pub(crate) mod overview;
pub(crate) mod parked;
pub(crate) mod people;
pub(crate) mod redrive;
pub(crate) mod refused;
pub(crate) mod release;
pub(crate) mod sends;
pub(crate) mod shell;
pub(crate) mod sign_in;
pub(crate) mod templates;
pub(crate) mod waiting;
