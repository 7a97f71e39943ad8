use worker::ChannelKind;

use crate::apns::send::Apns;
use crate::calls::Calls;
use crate::fcm::send::Fcm;

pub const KINDS: &[&dyn ChannelKind<Calls>] = &[&Apns, &Fcm];
