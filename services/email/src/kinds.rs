use worker::ChannelKind;

use crate::connections::Connections;
use crate::postmark::send::Postmark;
use crate::smtp::send::Smtp;

pub const KINDS: &[&dyn ChannelKind<Connections>] = &[&Smtp, &Postmark];
