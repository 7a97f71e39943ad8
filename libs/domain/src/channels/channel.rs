//! The channels that a send can name.

use crate::text_enum::text_enum;

text_enum! {
    /// A channel, by its name in the API. The API accepts all of these names, but Tidings sends messages only on the channels in
    /// [`Channel::DELIVERED`].
    Channel {
        /// The in-app inbox.
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
    /// The channels on which Tidings sends messages, in the order in which responses list them.
    pub const DELIVERED: [Channel; 5] =
        [Channel::InApp, Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The channels in [`DELIVERED`](Self::DELIVERED) that need a provider.
    pub const EXTERNAL: [Channel; 4] = [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The channels on which a message must not be sent twice, because the recipient would get both messages and each message
    /// costs money. If the outcome is unknown, the message is sent again only to a provider that de-duplicates by idempotency
    /// key.
    pub const ONCE: [Channel; 1] = [Channel::Sms];

    /// Returns true if a message with an unknown outcome may be sent again on this channel, even by a provider that does not
    /// de-duplicate.
    #[must_use]
    pub fn is_repeatable(self) -> bool {
        !Channel::ONCE.contains(&self)
    }

    /// Returns true if Tidings sends messages on this channel. It does not for the other names that the API accepts.
    #[must_use]
    pub fn is_delivered(self) -> bool {
        Channel::DELIVERED.contains(&self)
    }
}
