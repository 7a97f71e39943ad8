//! Users with a target on every channel except web push.

use serde_json::{Value, json};

/// A user, given by a number that is unique in the run.
#[derive(Clone, Copy, Debug)]
pub struct Person(pub usize);

impl Person {
    /// Number of targets that a user has on these channels: two on `mobilePush`, one on any other.
    pub fn targets(channels: &[&str]) -> usize {
        channels.iter().map(|channel| if *channel == "mobilePush" { 2 } else { 1 }).sum()
    }

    pub fn identifier(self) -> String {
        format!("person-{}", self.0)
    }

    pub fn email(self) -> String {
        format!("person-{}@example.com", self.0)
    }

    pub fn phone(self) -> String {
        format!("+1415{:07}", self.0)
    }

    /// Device token in the format of APNs: 32 bytes in hexadecimal.
    pub fn apns_token(self) -> String {
        format!("{:064x}", 0xa000_0000_usize + self.0)
    }

    pub fn fcm_token(self) -> String {
        format!("fcm-token-{:020}", self.0)
    }

    /// The user as an item of `POST /v3/users/bulk`.
    pub fn user(self) -> Value {
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
