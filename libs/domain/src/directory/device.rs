//! The devices of users.

use crate::text_enum::text_enum;

/// Maximum number of devices per user. A new device replaces the device that connected least recently.
pub const MAX_DEVICES: i64 = 50;

text_enum! {
    DeviceType {
        Browser = "browser",
        /// A phone or tablet running Android.
        Android = "android",
        /// An iPhone or iPad.
        Ios = "ios",
    }
}
