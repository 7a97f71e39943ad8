#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    #[default]
    Usual,
    /// Sends each octet of a reply on its own.
    OneByteAtATime,
    /// Text in ISO 8859-1.
    Latin1,
    /// Text in GBK.
    Gbk,
    /// Codes without a text: `250` and a line end.
    BareCodes,
    /// Lines that end with LF alone.
    BareLineFeeds,
    /// No space between the code and the text.
    NoSpace,
    /// Text of 20,000 octets in one line.
    LongLines,
    /// Further lines before the last one; some of them without a code.
    ManyLines,
    /// A first line with another code.
    ChangingCodes,
    /// An empty line before each reply.
    EmptyLines,
    /// Features in lower case.
    LowerCase,
    /// Knows only HELO.
    NoEhlo,
    /// Answers a second EHLO with 503.
    EhloOnce,
}

impl Manner {
    /// Writes a reply of lines that are separated by CRLF, without the last line end.
    pub(super) fn write(self, reply: &str, out: &mut Vec<u8>) {
        for line in reply.split("\r\n") {
            self.write_line(line, out);
        }
    }

    fn write_line(self, line: &str, out: &mut Vec<u8>) {
        let (code, rest) = line.split_at_checked(3).unwrap_or((line, ""));
        // Only texts may change: the lines of EHLO and of a challenge have a meaning.
        let has_meaning = code == "334" || rest.starts_with('-') || rest == " ENHANCEDSTATUSCODES";
        let end = if self == Manner::BareLineFeeds { &b"\n"[..] } else { b"\r\n" };
        let before: Vec<u8> = match self {
            Manner::EmptyLines => end.to_vec(),
            Manner::ManyLines if !has_meaning => format!("{code}-wait\r\nfor it\r\n{code}-\r\n").into_bytes(),
            Manner::ChangingCodes if !has_meaning => {
                let other = if code == "250" { "550" } else { "250" };
                format!("{other}-one moment\r\n").into_bytes()
            }
            _ => Vec::new(),
        };
        out.extend_from_slice(&before);
        match self {
            Manner::BareCodes if !has_meaning => out.extend_from_slice(code.as_bytes()),
            Manner::NoSpace if !has_meaning => {
                out.extend_from_slice(code.as_bytes());
                out.extend_from_slice(rest.trim_start().as_bytes());
            }
            Manner::LowerCase => out.extend_from_slice(line.to_ascii_lowercase().as_bytes()),
            _ => out.extend_from_slice(line.as_bytes()),
        }
        match self {
            Manner::Latin1 if !has_meaning => out.extend_from_slice(b" gr\xFC\xDFe"),
            Manner::Gbk if !has_meaning => out.extend_from_slice(b" \xC4\xFA\xBA\xC3\x81\x5C"),
            Manner::LongLines if !has_meaning => out.resize(out.len() + 20_000, b'x'),
            _ => {}
        }
        out.extend_from_slice(end);
    }
}
