pub mod allowed_senders;
pub mod channel;
pub mod email_address;
pub mod mail_header;
pub mod mobile_push;
pub mod provider_override;
pub mod sms;
pub mod web_push;
