//! The domain logic of Tidings. This crate does no I/O, awaits nothing, and reads neither a clock nor random numbers: callers pass the time
//! and random numbers as arguments, so that every decision can be tested and replayed.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod action;
pub mod actor;
pub mod app_setting;
pub mod body;
mod channels;
mod deliveries;
mod digest;
mod directory;
mod events;
pub mod excerpt;
pub mod explain;
pub mod fields;
pub mod html;
pub mod id;
pub mod inbox;
pub mod problem;
pub mod public_address;
pub mod role;
mod sends;
pub mod settings;
mod signing_algorithm;
pub mod size;
pub mod structure;
mod text_enum;
pub mod time;
pub mod webhook;

pub use channels::{
    allowed_senders, channel, email_address, email_layout, mail_header, mobile_push, provider_override, sms,
    web_push,
};
pub use deliveries::{
    breaker, delivery, health, outcome, receipt, redrive, retry, route, target, transition,
};
pub use directory::{device, profile, topic};
pub use events::{event, stream};
pub use sends::{content, content_ids, expansion, link, overrides, plan, request, send};

pub use action::Action;
pub use actor::{Actor, ActorKind, Origin};
pub use channel::Channel;
pub use delivery::{Reason, Status};
pub use device::DeviceType;
pub use digest::Digest;
pub use directory::trust::{TemplateProfile, TokenSubject};
pub use email_address::EmailAddress;
pub use event::{Envelope, Event};
pub use expansion::Expansion;
pub use id::{AppId, CategoryId, DeliveryId, DeliveryIds, ItemId, SendId, TopicId, UserNumber};
pub use outcome::{Answer, Outcome, TargetDeath};
pub use problem::Problem;
pub use role::Role;
pub use route::Route;
pub use send::{Lane, SendRequest};
pub use signing_algorithm::SigningAlgorithm;
pub use sms::number::PhoneNumber;
pub use stream::StreamName;
pub use time::Timestamp;
