//! The GSM 7 bit default alphabet with its extension table (3GPP TS 23.038, section 6.2.1).

/// The septet after it is a code of the extension table.
const ESCAPE: u8 = 0x1b;

/// Indexed by code. Code 0x1B is the escape, not a character.
const ALPHABET: [char; 128] = [
    '@', '£', '$', '¥', 'è', 'é', 'ù', 'ì', 'ò', 'Ç', '\n', 'Ø', 'ø', '\r', 'Å', 'å', //
    'Δ', '_', 'Φ', 'Γ', 'Λ', 'Ω', 'Π', 'Ψ', 'Σ', 'Θ', 'Ξ', '\u{1b}', 'Æ', 'æ', 'ß', 'É', //
    ' ', '!', '"', '#', '¤', '%', '&', '\'', '(', ')', '*', '+', ',', '-', '.', '/', //
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ':', ';', '<', '=', '>', '?', //
    '¡', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'J', 'K', 'L', 'M', 'N', 'O', //
    'P', 'Q', 'R', 'S', 'T', 'U', 'V', 'W', 'X', 'Y', 'Z', 'Ä', 'Ö', 'Ñ', 'Ü', '§', //
    '¿', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l', 'm', 'n', 'o', //
    'p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x', 'y', 'z', 'ä', 'ö', 'ñ', 'ü', 'à',
];

const EXTENSION: [(u8, char); 10] = [
    (0x0a, '\u{c}'),
    (0x14, '^'),
    (0x28, '{'),
    (0x29, '}'),
    (0x2f, '\\'),
    (0x3c, '['),
    (0x3d, '~'),
    (0x3e, ']'),
    (0x40, '|'),
    (0x65, '€'),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Septets {
    One(u8),
    Escaped(u8),
}

impl Septets {
    /// None if the alphabet lacks the character.
    #[must_use]
    pub fn of(character: char) -> Option<Septets> {
        // Most characters are letters and digits, whose codes are the same as in ASCII.
        if character.is_ascii_alphanumeric() || character == ' ' {
            return u8::try_from(character).ok().map(Septets::One);
        }
        let position = ALPHABET.iter().position(|known| *known == character);
        match position.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != ESCAPE) {
            Some(code) => Some(Septets::One(code)),
            None => {
                let found = EXTENSION.iter().find(|(_, known)| *known == character);
                found.map(|(code, _)| Septets::Escaped(*code))
            }
        }
    }

    #[must_use]
    pub fn count(self) -> usize {
        match self {
            Septets::One(_) => 1,
            Septets::Escaped(_) => 2,
        }
    }
}

/// Encodes a text with one septet per octet, unpacked, as in SMPP. None if the alphabet lacks a character.
#[must_use]
pub fn encode(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    for character in text.chars() {
        match Septets::of(character)? {
            Septets::One(code) => octets.push(code),
            Septets::Escaped(code) => octets.extend([ESCAPE, code]),
        }
    }
    Some(octets)
}

/// Decodes the result of [`encode`]; None if an octet is not a septet or the last octet is an escape. An escaped code that the extension
/// table lacks is decoded with the default alphabet (section 6.2.1.1).
#[must_use]
pub fn decode(octets: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(octets.len());
    let mut octets = octets.iter().copied();
    while let Some(octet) = octets.next() {
        let character = match octet {
            ESCAPE => {
                let code = octets.next()?;
                let extended = EXTENSION.iter().find(|(known, _)| *known == code);
                extended.map_or_else(|| ALPHABET.get(usize::from(code)).copied(), |(_, found)| Some(*found))
            }
            code => ALPHABET.get(usize::from(code)).copied(),
        };
        text.push(character?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_survives_encoding_and_decoding() {
        let all: String =
            ALPHABET.iter().filter(|c| **c != '\u{1b}').chain(EXTENSION.iter().map(|(_, c)| c)).collect();
        let octets = encode(&all).unwrap();
        assert_eq!(octets.len(), 127 + 2 * 10);
        assert_eq!(decode(&octets).unwrap(), all);
        assert_eq!(encode("{a€}").unwrap(), [0x1b, 0x28, b'a', 0x1b, 0x65, 0x1b, 0x29]);
        assert_eq!(encode("@_").unwrap(), [0, 0x11]);
    }

    #[test]
    fn characters_outside_the_alphabet_are_not_encoded() {
        for text in ["ç", "`", "😀", "Ж", "\u{1b}", "a\u{300}", "\t"] {
            assert_eq!(encode(text), None, "{text:?}");
        }
        assert_eq!(decode(&[0x80]), None);
        assert_eq!(decode(&[0x1b]), None, "an escape without a code");
        assert_eq!(decode(&[0x1b, b'a']).as_deref(), Some("a"));
    }
}
