#[derive(Default)]
pub(super) struct Writer {
    out: String,
    breaks: usize,
    space: bool,
}

impl Writer {
    pub(super) fn with_capacity(capacity: usize) -> Writer {
        Writer { out: String::with_capacity(capacity), ..Writer::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.out.len()
    }

    pub(super) fn since(&self, start: usize) -> &str {
        self.out.get(start..).unwrap_or_default()
    }

    /// Writes text. White space of HTML becomes one space; a no-break space becomes a space that is kept. Other control characters
    /// are left out.
    pub(super) fn text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.bytes().position(|octet| octet.is_ascii_whitespace());
            let (word, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, ""));
            if word.bytes().any(may_be_special) {
                self.word(&word.replace('\u{a0}', " ").replace(|letter: char| letter.is_control(), ""));
            } else {
                self.word(word);
            }
            self.space |= end.is_some();
            rest = after.get(1..).unwrap_or_default();
        }
    }

    fn word(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        let breaks = std::mem::take(&mut self.breaks);
        let space = std::mem::take(&mut self.space);
        if self.out.is_empty() {
            // No break or space before the first word.
        } else if breaks > 0 {
            self.out.extend(std::iter::repeat_n('\n', breaks));
        } else if space && !self.out.ends_with(['\n', ' ']) {
            self.out.push(' ');
        }
        self.out.push_str(word);
    }

    /// Writes a link's target. A space at the end of the link's text follows the target.
    pub(super) fn target(&mut self, target: &str) {
        let is_followed_by_space = std::mem::replace(&mut self.space, true);
        self.word(&format!("<{target}>"));
        self.space = is_followed_by_space;
    }

    pub(super) fn space(&mut self) {
        self.space = true;
    }

    pub(super) fn bullet(&mut self) {
        self.word("-");
        self.space = true;
    }

    pub(super) fn break_line(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
    }

    pub(super) fn next_line(&mut self) {
        self.breaks += 1;
    }

    pub(super) fn finish(mut self) -> String {
        self.out.truncate(self.out.trim_end().len());
        self.out.push('\n');
        self.out
    }
}

/// True for the first octet of a control character or a no-break space, and of a few other characters.
fn may_be_special(octet: u8) -> bool {
    octet.is_ascii_control() || octet == 0xC2
}
