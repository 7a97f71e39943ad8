//! Kinds of SMS providers.

use worker::ChannelKind;

use crate::connections::Connections;
use crate::http::send::Http;
use crate::smpp::send::Smpp;
use crate::twilio::send::Twilio;

/// Supported kinds of providers.
pub const KINDS: &[&dyn ChannelKind<Connections>] = &[&Twilio, &Http, &Smpp];
