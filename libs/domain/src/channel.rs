//! The ways by which a notification reaches a person.

use crate::text_enum::text_enum;

text_enum! {
    /// A channel by its identifier in the interface.
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
        /// Known to the interface, not delivered by this service.
        Whatsapp = "whatsapp",
        /// Known to the interface, not delivered by this service.
        Slack = "slack",
        /// Known to the interface, not delivered by this service.
        Webhook = "webhook",
        /// Known to the interface, not delivered by this service.
        Discord = "discord",
        /// Known to the interface, not delivered by this service.
        Chat = "chat",
    }
}

impl Channel {
    /// The channels that the service delivers over, in the order in which answers list them.
    pub const DELIVERED: [Channel; 5] =
        [Channel::InApp, Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The delivered channels that need a provider.
    pub const EXTERNAL: [Channel; 4] = [Channel::Email, Channel::WebPush, Channel::MobilePush, Channel::Sms];

    /// The channels on which a message that may have been taken is never sent again: nothing would tell the person that
    /// the two are one, and each costs.
    pub const ONCE: [Channel; 1] = [Channel::Sms];

    /// Whether a message of this channel may be sent again when nobody knows what became of it.
    #[must_use]
    pub fn is_repeatable(self) -> bool {
        !Channel::ONCE.contains(&self)
    }

    /// Whether the service delivers over this channel.
    #[must_use]
    pub fn is_delivered(self) -> bool {
        Channel::DELIVERED.contains(&self)
    }
}
