//! The unit of planning.

use std::sync::Arc;

use domain::{AppId, SendId, Timestamp};

/// One turn of a send.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The app.
    pub app: AppId,
    /// The send.
    pub send_id: SendId,
    /// Number of the turn, from 0.
    pub turn: u32,
    /// When the send was accepted.
    pub accepted_at: Timestamp,
    /// The send itself.
    pub send: Arc<domain::Send>,
}
