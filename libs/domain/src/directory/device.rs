use crate::text_enum::text_enum;

/// Limit per user. A new device replaces the device that connected least recently.
pub const MAX_DEVICES: i64 = 50;

text_enum! {
    DeviceType {
        Browser = "browser",
        Android = "android",
        Ios = "ios",
    }
}
