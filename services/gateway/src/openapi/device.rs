//! A device that a user signs in on.
#![expect(dead_code, reason = "this struct stands for its schema alone")]

use utoipa::ToSchema;

/// A device.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({"deviceType": "android", "pushToken": "fcm-token-1", "pushProvider": "fcm"})
)]
pub(crate) struct Device {
    #[schema(inline, required = false)]
    device_type: DeviceType,
    #[schema(max_length = 2048)]
    browser_type: Option<String>,
    /// Added to the user's profile.
    #[schema(max_length = 2048)]
    push_token: Option<String>,
    /// Service that the token is for; `fcm` if missing.
    #[schema(inline)]
    push_provider: Option<PushProvider>,
}

/// Type of the device. Required, except for callers with the API secret.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum DeviceType {
    Browser,
    Android,
    Ios,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum PushProvider {
    Fcm,
    Apns,
}
