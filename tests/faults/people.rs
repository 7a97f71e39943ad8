//! Who is written to: people with an address on every channel.

use serde_json::{Value, json};

/// A person, by a number that nobody else in the run has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Person(pub(crate) usize);

impl Person {
    /// On how many targets these channels reach somebody.
    pub(crate) fn targets(channels: &[&str]) -> usize {
        channels.iter().map(|channel| if *channel == "mobilePush" { 2 } else { 1 }).sum()
    }

    pub(crate) fn identifier(self) -> String {
        format!("person-{}", self.0)
    }

    pub(crate) fn email(self) -> String {
        format!("person-{}@example.com", self.0)
    }

    pub(crate) fn phone(self) -> String {
        format!("+1415{:07}", self.0)
    }

    /// As APNs gives them: 32 bytes in hexadecimal.
    pub(crate) fn apns_token(self) -> String {
        format!("{:064x}", 0xa000_0000_usize + self.0)
    }

    pub(crate) fn fcm_token(self) -> String {
        format!("fcm-token-{:020}", self.0)
    }

    /// An item of `POST /v3/users/bulk`.
    pub(crate) fn user(self) -> Value {
        json!({
            "identifier": self.identifier(),
            "profile": {
                "email": self.email(),
                "phone": self.phone(),
                "apns": {"tokens": [self.apns_token()]},
                "fcm": {"tokens": [self.fcm_token()]},
            },
        })
    }
}
