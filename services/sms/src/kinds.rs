use worker::ChannelKind;

use crate::connections::Connections;
use crate::http::send::Http;
use crate::smpp::send::Smpp;
use crate::twilio::send::Twilio;

pub const KINDS: &[&dyn ChannelKind<Connections>] = &[&Twilio, &Http, &Smpp];
