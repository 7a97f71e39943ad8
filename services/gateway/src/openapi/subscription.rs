//! A browser's subscription to web push.
#![expect(dead_code, reason = "these structs exist only for their schemas")]

use utoipa::ToSchema;

/// A browser's `PushSubscription`.
#[derive(ToSchema)]
#[schema(
    rename_all = "camelCase",
    example = json!({
        "endpoint": "https://fcm.googleapis.com/fcm/send/eC2bPHLT7wU", "expirationTime": null,
        "keys": {
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    })
)]
pub(crate) struct Subscription {
    /// `https` URL on port 443 of a push service that the service's configuration allows.
    #[schema(max_length = 2048, pattern = "^https?://[!-~]+$")]
    endpoint: String,
    /// Time of expiry in milliseconds since 1970.
    #[schema(minimum = 0, maximum = 253402300799999_f64)]
    expiration_time: Option<f64>,
    keys: SubscriptionKeys,
}

/// Keys of the subscription, in base64url with or without padding.
#[derive(ToSchema)]
pub(crate) struct SubscriptionKeys {
    /// An uncompressed point of P-256.
    #[schema(pattern = "^[A-Za-z0-9_-]{87}=?$")]
    p256dh: String,
    /// 16 bytes.
    #[schema(pattern = "^[A-Za-z0-9_-]{22}(==)?$")]
    auth: String,
}
