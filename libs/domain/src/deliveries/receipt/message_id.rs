//! Comparison of message ids that a provider writes in two notations: one in its answer, another in its receipts.
//!
//! A receipt must never change another message's delivery. So an id in another notation is accepted only if it cannot be
//! mistaken for the id of another message, and if the receipt does not report on another phone number.

/// Length of the end of a phone number that is compared.
const END: usize = 4;

/// Notation of the ids in a provider's receipts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdNotation {
    /// Recognised by the id: the same text, perhaps in another case or with other leading zeros; or the hexadecimal and the
    /// decimal notation of one number, if one of them has a letter, they differ in length, and the receipt names the number of
    /// the delivery.
    Auto,
    /// Exactly the text of the answer.
    Same,
    /// Decimal; the answer has the same number in hexadecimal notation.
    Decimal,
    /// Hexadecimal; the answer has the same number in decimal notation.
    Hex,
}

/// A message as a receipt names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedMessage {
    /// Identifier of the provider, unique in the app.
    pub provider: String,
    /// Id in the receipt.
    pub id: String,
    pub notation: IdNotation,
    /// The last four digits of the numbers in the receipt. Empty if the receipt has no numbers.
    pub number_ends: Vec<String>,
}

/// An attempt that the database found by a key of the receipt's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// Message id in the provider's answer.
    pub answered: &'a str,
    /// Phone number of the delivery.
    pub target: &'a str,
}

impl IdNotation {
    /// Words of the setting `receiptIds`; the first is the default.
    pub const WORDS: [(&'static str, IdNotation); 4] = [
        ("auto", IdNotation::Auto),
        ("same", IdNotation::Same),
        ("decimal", IdNotation::Decimal),
        ("hex", IdNotation::Hex),
    ];

    /// Word of the notation, in settings and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            IdNotation::Auto => "auto",
            IdNotation::Same => "same",
            IdNotation::Decimal => "decimal",
            IdNotation::Hex => "hex",
        }
    }

    /// Reads the word of a notation. An unknown word stands for [`IdNotation::Same`], which can match no other message.
    #[must_use]
    pub fn of_word(word: &str) -> IdNotation {
        IdNotation::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map_or(IdNotation::Same, |(_, notation)| *notation)
    }
}

impl ReportedMessage {
    /// Returns the [keys](key) under which the database finds attempts whose ids may be this id. At most two.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let same = Some(key(&self.id));
        let keys = match self.notation {
            IdNotation::Same => [same, None],
            IdNotation::Auto => [same, converted(self.id.trim())],
            // A message centre may use the notation of its answers in a parameter of the receipt, such as
            // receipted_message_id. A letter shows that an id is not decimal.
            IdNotation::Decimal if !is_decimal(&self.id) => [same, None],
            IdNotation::Decimal => [hex_of(&self.id), None],
            IdNotation::Hex => [decimal_of(&self.id), None],
        };
        keys.into_iter().flatten().collect()
    }

    /// Chooses the attempt that the receipt reports on and returns its index. The candidates are ordered from the latest to the
    /// earliest. If the provider used one id several times, the latest attempt counts. Returns None if the candidates have
    /// different ids, or if the receipt names another number.
    #[must_use]
    pub fn choose(&self, candidates: &[Candidate<'_>]) -> Option<usize> {
        let fitting = || candidates.iter().enumerate().filter(|(_, candidate)| self.fits_number(candidate));
        if matches!(self.notation, IdNotation::Auto | IdNotation::Same) {
            let exact = fitting().find(|(_, candidate)| candidate.answered.trim() == self.id.trim());
            if let Some((index, _)) = exact {
                return Some(index);
            }
        }
        let keys = self.keys();
        let mut similar = fitting()
            .filter(|(_, candidate)| self.resembles(candidate.answered, &keys) && self.is_certain(candidate));
        let (index, first) = similar.next()?;
        similar.all(|(_, other)| other.answered == first.answered).then_some(index)
    }

    /// Returns true if an id from the provider's answer is this id in another notation. The case of an id counts unless the id
    /// is hexadecimal, and an id of zeros resembles no other id.
    fn resembles(&self, answered: &str, keys: &[String]) -> bool {
        let key = key(answered);
        self.notation != IdNotation::Same
            && !key.is_empty()
            && is_hex(answered)
            && is_hex(&self.id)
            && keys.contains(&key)
    }

    /// Returns false if the candidate's id may belong to another message in the notation of the receipt: ids of one notation often
    /// have one length, and only the phone number shows that a converted id means the same message.
    fn is_certain(&self, candidate: &Candidate<'_>) -> bool {
        let is_converted = key(candidate.answered) != key(&self.id);
        let is_doubtful = self.notation == IdNotation::Auto && is_converted;
        !is_doubtful
            || candidate.answered.trim().len() != self.id.trim().len()
                && number_end(candidate.target).is_some_and(|end| self.number_ends.contains(&end))
    }

    /// Returns false if the receipt reports on another number. With a notation from the settings, the number does not count.
    fn fits_number(&self, candidate: &Candidate<'_>) -> bool {
        let is_checked = self.notation == IdNotation::Auto && !self.number_ends.is_empty();
        !is_checked || number_end(candidate.target).is_none_or(|end| self.number_ends.contains(&end))
    }
}

/// Returns the key under which an id is found in other notations: in lower case, without leading zeros and spaces around it.
#[must_use]
pub fn key(id: &str) -> String {
    id.trim().to_ascii_lowercase().trim_start_matches('0').to_owned()
}

/// Returns the last four digits of a phone number, or None if it has fewer digits or is a name.
#[must_use]
pub fn number_end(number: &str) -> Option<String> {
    let digits = number.trim().trim_start_matches('+');
    let is_number = digits.len() >= END && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.get(digits.len() - END..).map(str::to_owned)).flatten()
}

/// Returns the key of a number in the other notation, if one of the notations has a letter. If both had only digits, each
/// could be the id of another message.
fn converted(id: &str) -> Option<String> {
    if is_decimal(id) { hex_of(id).filter(|hex| !is_decimal(hex)) } else { decimal_of(id) }
}

fn hex_of(decimal: &str) -> Option<String> {
    decimal.trim().parse::<u128>().ok().map(|number| format!("{number:x}"))
}

fn decimal_of(hex: &str) -> Option<String> {
    let number = u128::from_str_radix(hex.trim(), 16).ok().filter(|_| is_hex(hex));
    number.map(|number| number.to_string())
}

fn is_decimal(id: &str) -> bool {
    let id = id.trim();
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for hexadecimal digits, also with the hyphens of a UUID.
fn is_hex(id: &str) -> bool {
    let id = id.trim();
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
