//! SMPP delivery receipts (section 5.3.2 and appendix B).

use domain::receipt::number_end;
use domain::{Answer, Outcome};

use super::incoming::{IncomingMessage, of_utf16};

const RECEIPT: u8 = 0x04;
/// Maximum length of a message id in bytes.
const LONGEST_ID: usize = 64;
const ALIASES: [(&str, &str); 8] = [
    ("DELIVERED", "DELIVRD"),
    ("UNDELIVERED", "UNDELIV"),
    ("UNDELIVERABLE", "UNDELIV"),
    ("UNDELIVRD", "UNDELIV"),
    ("ACCEPTED", "ACCEPTD"),
    ("REJECTED", "REJECTD"),
    ("FAILED", "UNDELIV"),
    ("EXPIRD", "EXPIRED"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Delivered,
    /// The message is in transit, or its state is unknown.
    Pending,
    Lost,
}

/// Message states: value of message_state, name in the text of a receipt, and meaning. No state shows that a number is
/// dead. The error codes that receipts contain could show it, but each network defines its own.
pub const TABLE: &[(u8, &str, State)] = &[
    (0, "SCHEDULED", State::Pending),
    (1, "ENROUTE", State::Pending),
    (2, "DELIVRD", State::Delivered),
    (3, "EXPIRED", State::Lost),
    (4, "DELETED", State::Lost),
    (5, "UNDELIV", State::Lost),
    (6, "ACCEPTD", State::Pending),
    (7, "UNKNOWN", State::Pending),
    (8, "REJECTD", State::Lost),
    (9, "SKIPPED", State::Lost),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryReceipt {
    pub message_id: String,
    pub state: &'static str,
    pub error: Option<String>,
    /// The last four digits of the numbers in the receipt.
    pub number_ends: Vec<String>,
    meaning: State,
}

impl DeliveryReceipt {
    /// Returns true if a message is a receipt. Some message centres do not mark receipts in esm_class; a phone cannot set the
    /// parameters of a receipt.
    #[must_use]
    pub fn is_receipt(message: &IncomingMessage) -> bool {
        let has_parameters = message.receipted_id.is_some() && message.state.is_some();
        message.kind() == RECEIPT || message.kind() == 0 && has_parameters
    }

    #[must_use]
    pub fn read(message: &IncomingMessage) -> Option<DeliveryReceipt> {
        if !DeliveryReceipt::is_receipt(message) {
            return None;
        }
        let text = match message.data_coding {
            8 => of_utf16(&message.octets),
            _ => String::from_utf8_lossy(&message.octets).into_owned(),
        };
        let row = match message.state {
            Some(state) => TABLE.iter().find(|(number, ..)| *number == state),
            None => row(field(&text, "stat:")?),
        };
        let (_, name, meaning) = row?;
        let message_id = message.receipted_id.clone().or_else(|| field(&text, "id:").map(str::to_owned))?;
        let error =
            field(&text, "err:").filter(|error| error.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let is_id = (1..=LONGEST_ID).contains(&message_id.len()) && !message_id.chars().any(char::is_control);
        is_id.then(|| DeliveryReceipt {
            message_id,
            state: name,
            error: error.map(str::to_owned),
            meaning: meaning.clone(),
            number_ends: [&message.source, &message.destination]
                .into_iter()
                .filter_map(|n| number_end(n))
                .collect(),
        })
    }

    /// None if the message is still in transit or its state is unknown.
    #[must_use]
    pub fn answer(&self) -> Option<Answer> {
        let outcome = match self.meaning {
            State::Pending => return None,
            State::Delivered => Outcome::Sent { provider_id: Some(self.message_id.clone()) },
            State::Lost => Outcome::Failed,
        };
        let message = self.error.as_ref().map(|error| format!("err:{error}")).unwrap_or_default();
        Some(Answer::new(outcome, self.state, message))
    }
}

/// Returns the row of a state's name, in upper or lower case.
fn row(word: &str) -> Option<&'static (u8, &'static str, State)> {
    let alias = ALIASES.iter().find(|(alias, _)| word.eq_ignore_ascii_case(alias));
    let word = alias.map_or(word, |(_, name)| *name);
    TABLE.iter().find(|(_, name, _)| word.eq_ignore_ascii_case(name))
}

/// Returns the value of a field such as `id:` in the text of a receipt. A field is a word that begins with the name, in
/// upper or lower case. Its value may follow after spaces. The field `text:`, which quotes the message, ends the receipt.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        if begins_with(word, "text:") {
            return None;
        }
        if begins_with(word, name) {
            let value = word.get(name.len()..).filter(|value| !value.is_empty());
            return value.or_else(|| words.next().filter(|next| !next.contains(':')));
        }
    }
    None
}

fn begins_with(word: &str, name: &str) -> bool {
    word.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}
