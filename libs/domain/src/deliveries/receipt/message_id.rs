//! Comparison of message ids that a provider writes in two notations: one in its answer, another in its receipts.
//!
//! A receipt must never change another message's delivery, so an id in another notation is accepted only if it cannot be the id of another
//! message, and the receipt does not report on another phone number.

/// Digits at the end of a phone number that are compared.
const END: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdNotation {
    /// The same text, perhaps in another case or with other leading zeros; or the hexadecimal and the decimal notation of one number, if
    /// one of them has a letter, they differ in length, and the receipt names the number of the delivery.
    Auto,
    Same,
    /// Decimal, while the answer is hexadecimal.
    Decimal,
    /// Hexadecimal, while the answer is decimal.
    Hex,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedMessage {
    pub provider: String,
    pub id: String,
    pub notation: IdNotation,
    /// Last four digits of the numbers in the receipt, if it has any.
    pub number_ends: Vec<String>,
}

/// An attempt that the database found by a key of the receipt's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub answered: &'a str,
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

    /// Word of the notation in settings and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            IdNotation::Auto => "auto",
            IdNotation::Same => "same",
            IdNotation::Decimal => "decimal",
            IdNotation::Hex => "hex",
        }
    }

    /// An unknown word stands for [`IdNotation::Same`], which can match no other message.
    #[must_use]
    pub fn of_word(word: &str) -> IdNotation {
        IdNotation::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map_or(IdNotation::Same, |(_, notation)| *notation)
    }
}

impl ReportedMessage {
    /// At most two [keys](key).
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

    /// Returns the index of the attempt that the receipt reports on. The candidates are ordered from the latest to the earliest; if the
    /// provider used one id several times, the latest counts. None if the candidates have different ids, or if the receipt names another
    /// number.
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

    /// The case of an id counts unless the id is hexadecimal, and an id of zeros resembles no other id.
    fn resembles(&self, answered: &str, keys: &[String]) -> bool {
        let key = key(answered);
        self.notation != IdNotation::Same
            && !key.is_empty()
            && is_hex(answered)
            && is_hex(&self.id)
            && keys.contains(&key)
    }

    /// Returns false if the candidate's id may belong to another message: ids of one notation often have one length, and only the phone
    /// number shows that a converted id means the same message.
    fn is_certain(&self, candidate: &Candidate<'_>) -> bool {
        let is_converted = key(candidate.answered) != key(&self.id);
        let is_doubtful = self.notation == IdNotation::Auto && is_converted;
        !is_doubtful
            || candidate.answered.trim().len() != self.id.trim().len()
                && number_end(candidate.target).is_some_and(|end| self.number_ends.contains(&end))
    }

    /// With a notation from the settings, the number does not count.
    fn fits_number(&self, candidate: &Candidate<'_>) -> bool {
        let is_checked = self.notation == IdNotation::Auto && !self.number_ends.is_empty();
        !is_checked || number_end(candidate.target).is_none_or(|end| self.number_ends.contains(&end))
    }
}

/// Key under which an id is found in other notations.
#[must_use]
pub fn key(id: &str) -> String {
    id.trim().to_ascii_lowercase().trim_start_matches('0').to_owned()
}

/// None for a name, or for fewer than four digits.
#[must_use]
pub fn number_end(number: &str) -> Option<String> {
    let digits = number.trim().trim_start_matches('+');
    let is_number = digits.len() >= END && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.get(digits.len() - END..).map(str::to_owned)).flatten()
}

/// Returns the key of a number in the other notation, if one of the notations has a letter. If both had only digits, each could be the id
/// of another message.
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

/// The hyphens of a UUID are allowed.
fn is_hex(id: &str) -> bool {
    let id = id.trim();
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
