//! Quoted-printable (RFC 2045 section 6.7), written in one pass: emails may have hundreds of kilobytes of text.

/// Longest line in octets, without its CRLF. All but a paragraph's last line end with `=`.
const LINE: usize = 76;
const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];

/// True for octets that stand for themselves. A trailing space or tab is escaped.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    plain[b'\t' as usize] = true;
    let mut octet = b' ';
    while octet <= b'~' {
        plain[octet as usize] = octet != b'=';
        octet += 1;
    }
    plain
};

/// Appends the encoded text. Each line end of the text (CR, LF or CRLF) becomes CRLF.
pub(crate) fn encode(text: &str, out: &mut String) {
    out.reserve(text.len() + text.len() / 4);
    let mut encoder = Encoder { out, on_line: 0 };
    let (octets, mut at) = (text.as_bytes(), 0);
    while let Some(&octet) = octets.get(at) {
        let run = encoder.plain_run(octets.get(at..).unwrap_or_default());
        if run > 0 {
            encoder.out.push_str(text.get(at..at + run).unwrap_or_default());
            encoder.on_line += run;
            at += run;
            continue;
        }
        at += 1;
        let next = octets.get(at);
        match octet {
            b'\r' if next == Some(&b'\n') => {}
            b'\r' | b'\n' => encoder.end_line(),
            _ => encoder.one(octet, matches!(next, None | Some(b'\r' | b'\n'))),
        }
    }
    encoder.escape_last_space();
}

struct Encoder<'a> {
    out: &'a mut String,
    on_line: usize,
}

impl Encoder<'_> {
    /// Length of the leading plain run that leaves room for `=` on the line.
    fn plain_run(&self, octets: &[u8]) -> usize {
        let most = octets.len().min((LINE - 1).saturating_sub(self.on_line));
        let reach = octets.get(..most).unwrap_or_default();
        reach.iter().position(|octet| !PLAIN[usize::from(*octet)]).unwrap_or(most)
    }

    fn one(&mut self, octet: u8, is_last: bool) {
        if PLAIN[usize::from(octet)] && !(is_last && matches!(octet, b' ' | b'\t')) {
            self.make_room(1, is_last);
            self.out.push(char::from(octet));
            self.on_line += 1;
        } else {
            self.make_room(3, is_last);
            self.escape(octet);
        }
    }

    /// Continues on the next line if `width` octets do not fit. The last octets of a line need no room for `=`.
    fn make_room(&mut self, width: usize, is_last: bool) {
        if self.on_line + width + usize::from(!is_last) > LINE {
            self.out.push_str("=\r\n");
            self.on_line = 0;
        }
    }

    fn escape(&mut self, octet: u8) {
        self.out.push('=');
        self.out.push(HEX[usize::from(octet >> 4)]);
        self.out.push(HEX[usize::from(octet & 15)]);
        self.on_line += 3;
    }

    fn end_line(&mut self) {
        self.escape_last_space();
        self.out.push_str("\r\n");
        self.on_line = 0;
    }

    /// Escapes a space or a tab at the end of a line, which servers may remove.
    fn escape_last_space(&mut self) {
        let Some(space @ (b' ' | b'\t')) = self.out.bytes().next_back().filter(|_| self.on_line > 0) else {
            return;
        };
        self.out.pop();
        self.on_line -= 1;
        self.make_room(3, true);
        self.escape(space);
    }
}

#[cfg(test)]
mod tests {
    use lettre::message::Body;
    use lettre::message::header::ContentTransferEncoding;
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str) -> String {
        let mut out = String::new();
        encode(text, &mut out);
        out
    }

    /// The encoder of the library that earlier releases used.
    fn by_lettre(text: &str) -> String {
        let lines = text.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
        let body = Body::new_with_encoding(lines.into_bytes(), ContentTransferEncoding::QuotedPrintable);
        String::from_utf8(body.unwrap().into_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn texts_are_encoded_as_by_earlier_releases(text in "([a-c]{1,80}|[ \t=.é€\r\n\0\x7f]){0,40}") {
            prop_assert_eq!(encoded(&text), by_lettre(&text));
        }
    }

    #[test]
    fn lines_of_every_length_end_as_by_earlier_releases() {
        for length in 0..160 {
            for end in ["", " ", "\t", "=", "é", "  ", " =", "= ", "é ", "a\n", " \r", "=\r\n", "x y", "\n "]
            {
                let text = format!("{}{end}", "x".repeat(length));
                assert_eq!(encoded(&text), by_lettre(&text), "{text:?}");
                assert!(encoded(&text).split("\r\n").all(|line| line.len() <= LINE));
            }
        }
    }
}
