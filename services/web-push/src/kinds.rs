use worker::ChannelKind;

use crate::push_services::PushServices;
use crate::vapid::Vapid;

pub const KINDS: &[&dyn ChannelKind<PushServices>] = &[&Vapid];
