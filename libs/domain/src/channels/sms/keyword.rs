//! Keywords with which the recipient of SMS stops messages, starts them again, or asks for help. A message is a keyword only if it contains
//! nothing else, apart from case, diacritics, punctuation and spaces.

mod table;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use crate::settings::SettingsReader;
pub use table::{EVERYWHERE, LOCAL, Words};

/// Number of letters and digits.
const LONGEST: usize = 40;
/// Limit per kind, in the settings of a provider.
const MOST_ADDED: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    Stop,
    Start,
    Help,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedKeywords {
    stop: Vec<String>,
    start: Vec<String>,
}

impl Keyword {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Keyword::Stop => "stop",
            Keyword::Start => "start",
            Keyword::Help => "help",
        }
    }

    /// Returns the keyword that a message consists of. `number` is the sender's number in E.164 form, because some keywords are only known
    /// in some countries. If the tables give a word two meanings, it means `Stop`.
    #[must_use]
    pub fn of(text: &str, number: &str, added: &AddedKeywords) -> Option<Keyword> {
        let word = folded(text)?;
        if added.stop.contains(&word) {
            return Some(Keyword::Stop);
        }
        let known: Vec<_> = table::of_number(number).collect();
        let has = |list: fn(&Words) -> &'static [&'static str]| {
            known.iter().any(|words| list(words).iter().any(|known| folded(known).as_ref() == Some(&word)))
        };
        if has(|words| words.stop) {
            Some(Keyword::Stop)
        } else if added.start.contains(&word) || has(|words| words.start) {
            Some(Keyword::Start)
        } else {
            has(|words| words.help).then_some(Keyword::Help)
        }
    }
}

impl AddedKeywords {
    pub fn read(reader: &mut SettingsReader) -> AddedKeywords {
        let mut read = |member: &str| {
            let listed = reader.list(member);
            let words: Option<Vec<_>> = listed.iter().map(|word| word.as_str().and_then(folded)).collect();
            words.filter(|words| words.len() <= MOST_ADDED).unwrap_or_else(|| {
                let says = format!(
                    "must be a list of up to {MOST_ADDED} texts with 1 to {LONGEST} letters and digits each"
                );
                reader.problem(member, "invalid", &says);
                Vec::new()
            })
        };
        AddedKeywords { stop: read("stopKeywords"), start: read("startKeywords") }
    }
}

/// Upper case without diacritics; None if no letter or digit is left, or more than [`LONGEST`].
fn folded(text: &str) -> Option<String> {
    let letters = text.nfkd().filter(|c| c.is_alphanumeric() && !is_combining_mark(*c));
    let mut word = String::new();
    for (count, letter) in letters.flat_map(char::to_uppercase).enumerate() {
        if count >= LONGEST {
            return None;
        }
        word.push(letter);
    }
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMERICAN: &str = "+15005550006";
    const GERMAN: &str = "+4915112345678";

    fn of(text: &str, number: &str) -> Option<Keyword> {
        Keyword::of(text, number, &AddedKeywords::default())
    }

    #[test]
    fn every_word_of_the_2025_rule_stops_messages_in_every_spelling() {
        for word in ["stop", "quit", "end", "revoke", "opt out", "cancel", "unsubscribe", "stopall", "optout"]
        {
            for text in [
                word.to_owned(),
                word.to_uppercase(),
                format!(" {word}.\r\n"),
                format!("\u{201c}{word}\u{201d}!"),
                format!("{word}\u{0}\u{200b}"),
                format!("🛑 {word} 🛑"),
            ] {
                for number in [AMERICAN, GERMAN, "anonymous"] {
                    assert_eq!(of(&text, number), Some(Keyword::Stop), "{text:?}");
                }
            }
        }
        for text in ["Opt-Out", "STOP ALL", "ＳＴＯＰ", "Stóp", "s.t.o.p"] {
            assert_eq!(of(text, GERMAN), Some(Keyword::Stop), "{text:?}");
        }
    }

    #[test]
    fn a_sentence_that_contains_a_keyword_is_none() {
        for text in
            ["please don't stop", "the end", "stop 2 messages", "", " .!", "stopp it", "yes please", "123"]
        {
            assert_eq!(of(text, AMERICAN), None, "{text:?}");
        }
        assert_eq!(of(&"stop".repeat(1000), AMERICAN), None);
    }

    #[test]
    fn start_and_help_are_known_and_local_words_only_in_their_countries() {
        for text in ["start", "Unstop!", "YES"] {
            assert_eq!(of(text, GERMAN), Some(Keyword::Start), "{text:?}");
        }
        assert_eq!(of("Help", GERMAN), Some(Keyword::Help));
        for (text, number) in [
            ("Stopp", GERMAN),
            ("arrêt", "+15145550006"),
            ("ARRET", "+33612345678"),
            ("baja", "+34612345678"),
            ("Alto", "+5215512345678"),
            ("sair", "+5511912345678"),
            ("Annulla", "+393331234567"),
            ("стоп", "+79161234567"),
            ("iptal", "+905321234567"),
            ("İPTAL", "+905321234567"),
            ("הסר", "+972501234567"),
            ("TD", "+8613812345678"),
        ] {
            assert_eq!(of(text, number), Some(Keyword::Stop), "{text:?} from {number}");
        }
        for text in ["baja", "TD", "fin"] {
            assert_eq!(of(text, GERMAN), None, "{text:?}");
        }
    }

    #[test]
    fn no_word_of_the_table_has_two_meanings_in_one_country() {
        for words in std::iter::once(&EVERYWHERE).chain(LOCAL) {
            let number = format!("+{}5005550006", words.countries.first().unwrap_or(&"1"));
            for (list, meaning) in
                [(words.stop, Keyword::Stop), (words.start, Keyword::Start), (words.help, Keyword::Help)]
            {
                for word in list {
                    assert_eq!(of(word, &number), Some(meaning), "{word} in {}", words.language);
                }
            }
        }
    }

    #[test]
    fn settings_add_keywords() {
        let settings = serde_json::json!({"stopKeywords": ["No more"], "startKeywords": ["Again!"]});
        let mut reader = SettingsReader::open(&settings).unwrap();
        let added = AddedKeywords::read(&mut reader);
        reader.finish(Some(())).unwrap();
        assert_eq!(Keyword::of("no more.", GERMAN, &added), Some(Keyword::Stop));
        assert_eq!(Keyword::of("AGAIN", GERMAN, &added), Some(Keyword::Start));
        for wrong in [serde_json::json!("STOP"), serde_json::json!([1]), serde_json::json!(["!"])] {
            let mut reader = SettingsReader::open(&serde_json::json!({"stopKeywords": wrong})).unwrap();
            AddedKeywords::read(&mut reader);
            assert!(!reader.is_sound(), "{wrong}");
        }
    }
}
