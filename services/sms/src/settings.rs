use domain::settings::SettingsReader;
use domain::sms::sender::{SENDER, is_sender};

/// Accepts a number, a short code, or a name of up to 11 letters and digits. Otherwise reports a problem with `member`.
pub(crate) fn sender(reader: &mut SettingsReader, member: &str, text: Option<String>) -> Option<String> {
    let text = text?;
    if !is_sender(&text) {
        reader.problem(member, "invalid", SENDER);
        return None;
    }
    Some(text)
}
