//! The HTTP API, endpoint by endpoint, on real servers: the gateway, the dispatcher and the inbox projection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access {
    mod claims;
    mod credentials;
    mod guarded_targets;
    mod isolation;
    mod matrix;
    mod refused_calls;
    mod tokens;
    mod trust;
    mod unproven_targets;
}
mod attacker;
mod client;
mod contract;
mod coverage;
mod deliveries {
    mod explain;
    mod smpp_messages;
    mod twilio_callbacks;
}
mod directory {
    mod bulk;
    mod categories;
    mod devices;
    mod erasure;
    mod malformed_addresses;
    mod preferences;
    mod profile;
    mod profile_patch;
    mod published_client;
    mod quotas;
    mod topic_channels;
    mod topics;
    mod unsubscribe;
    mod users;
    mod web_push;
}
mod http {
    mod bodies;
    mod cors;
    mod docs;
    mod fuzz;
    mod heads;
    mod outages;
    mod protocol;
    mod rate_limit;
    mod rows;
    mod shares;
    mod strangers;
}
mod inbox {
    mod items;
    mod paging;
    mod places;
    mod push_clicks;
    mod random;
    mod state;
    mod whole;
}
mod log_store;
mod mailbox;
mod realtime {
    mod bulk;
    mod ends;
    mod hostile;
    pub(crate) mod live;
    mod model;
    mod socket_device;
    mod socket_io;
    mod stream;
}
mod sends {
    mod attachments;
    mod cancellation;
    mod costs;
    mod dry_run;
    mod idempotency;
    mod lanes;
    mod missing_data;
    mod options;
    pub(crate) mod overrides;
    mod send;
    mod status;
    mod topics;
}
mod service;
mod signer;
