//! What a device tells when a user signs in on it.
#![expect(dead_code, reason = "this struct stands for its schema alone")]

use utoipa::ToSchema;

/// A device.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({"deviceType": "android", "pushToken": "fcm-token-1", "pushProvider": "fcm"})
)]
pub(crate) struct Device {
    /// Required, unless an app acts for the user.
    #[schema(inline)]
    device_type: DeviceType,
    #[schema(max_length = 2048)]
    browser_type: Option<String>,
    /// Is put on the user's profile.
    #[schema(max_length = 2048)]
    push_token: Option<String>,
    /// Whose token it is; `fcm` where nothing is said.
    #[schema(inline)]
    push_provider: Option<PushProvider>,
}

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
