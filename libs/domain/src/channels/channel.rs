use crate::text_enum::text_enum;

text_enum! {
    /// A channel, by its name in the API. The API also accepts the names of channels on which Tidings does not send; see
    /// [`Channel::DELIVERED`].
    Channel {
        InApp = "inApp",
        Email = "email",
        /// Web push to browsers (RFC 8030).
        WebPush = "webPush",
        /// Push to phones, by APNs or FCM.
        MobilePush = "mobilePush",
        Sms = "sms",
        Whatsapp = "whatsapp",
        Slack = "slack",
        Webhook = "webhook",
        Discord = "discord",
        Chat = "chat",
    }
}

impl Channel {
    /// Channels on which Tidings sends messages, in the order in which responses list them.
    pub const DELIVERED: [Channel; 5] =
        [Channel::InApp, Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    pub const EXTERNAL: [Channel; 4] = [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// Channels on which a message must not be sent twice, because the recipient would get both and each costs money. If the outcome is
    /// unknown, the message is sent again only to a provider that de-duplicates by idempotency key.
    pub const ONCE: [Channel; 1] = [Channel::Sms];

    #[must_use]
    pub fn is_repeatable(self) -> bool {
        !Channel::ONCE.contains(&self)
    }

    /// Returns the names of the channels on which Tidings sends, for messages.
    #[must_use]
    pub fn delivered_names() -> String {
        Channel::DELIVERED.map(Channel::as_str).join(", ")
    }

    #[must_use]
    pub fn is_delivered(self) -> bool {
        Channel::DELIVERED.contains(&self)
    }
}
