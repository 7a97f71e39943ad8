//! What users are signed in on.

use crate::text_enum::text_enum;

/// Most devices of a user. The one that was connected longest ago gives way to a new one.
pub const MAX_DEVICES: i64 = 50;

text_enum! {
    /// What a device is.
    DeviceType {
        /// A browser.
        Browser = "browser",
        /// A phone or tablet with Android.
        Android = "android",
        /// An iPhone or iPad.
        Ios = "ios",
    }
}
