//! The channels by which a notification reaches a person.

use crate::text_enum::text_enum;

text_enum! {
    /// A channel, by its identifier in the API.
    Channel {
        /// The in-app inbox.
        InApp = "inApp",
        /// Electronic mail.
        Email = "email",
        /// Web push to browsers (RFC 8030).
        WebPush = "webPush",
        /// Push to phones, by APNs or FCM.
        MobilePush = "mobilePush",
        /// Short messages.
        Sms = "sms",
        Whatsapp = "whatsapp",
        Slack = "slack",
        Webhook = "webhook",
        Discord = "discord",
        Chat = "chat",
    }
}

impl Channel {
    /// The channels that Tidings delivers, in the order in which responses list them.
    pub const DELIVERED: [Channel; 5] =
        [Channel::InApp, Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The delivered channels that need a provider.
    pub const EXTERNAL: [Channel; 4] = [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The channels on which a message with an unknown outcome is never sent again: the recipient could not recognise the
    /// second message as a duplicate, and each message costs money.
    pub const ONCE: [Channel; 1] = [Channel::Sms];

    /// Returns true if a message of this channel may be sent again when its outcome is unknown.
    #[must_use]
    pub fn is_repeatable(self) -> bool {
        !Channel::ONCE.contains(&self)
    }

    /// Returns true if Tidings delivers this channel.
    #[must_use]
    pub fn is_delivered(self) -> bool {
        Channel::DELIVERED.contains(&self)
    }
}
