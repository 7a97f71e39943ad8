//! What is sent: made of its number alone, so that every check knows what must be there.

use serde_json::{Value, json};

pub(crate) const SENDS: usize = 1_000;
pub(crate) const RECIPIENTS: usize = 10;
pub(crate) const USERS: usize = 200;

/// The user's identifier.
pub(crate) fn user(number: usize) -> String {
    format!("user-{number}")
}

/// The user's email address.
pub(crate) fn address(number: usize) -> String {
    format!("user-{number}@example.com")
}

/// What the inbox shows as title and the email as subject.
pub(crate) fn title(send: usize) -> String {
    format!("send {send}")
}

/// Who gets a send: ten different users, and every user as many sends as any other.
pub(crate) fn recipients(send: usize) -> impl Iterator<Item = usize> {
    (0..RECIPIENTS).map(move |index| (send * 7 + index * 19) % USERS)
}

/// The request's body.
pub(crate) fn body(send: usize) -> Value {
    let recipients: Vec<String> = recipients(send).map(user).collect();
    json!({
        "notification": {"title": title(send), "message": "It is on its way."},
        "sendTo": {"recipients": recipients},
    })
}
