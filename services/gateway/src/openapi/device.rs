//! A device that a user signs in on.
#![expect(dead_code, reason = "this struct exists only for its schema")]

use utoipa::ToSchema;

/// The device that signs in.
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
    /// Push token of the device. It is added to the user's profile.
    #[schema(max_length = 2048)]
    push_token: Option<String>,
    /// Push service that issued the token. Default: `fcm`.
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
