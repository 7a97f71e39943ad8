//! `cargo xtask figures` and the suite `architecture` use this module.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prose {
    pub(crate) words: usize,
    pub(crate) lines: usize,
}

impl Prose {
    /// Leaves out the module of tests at the end.
    pub(crate) fn add(&mut self, text: &str) {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            match line.strip_prefix("///") {
                Some(comment) => self.words += comment.split_whitespace().count(),
                None => self.lines += usize::from(!line.starts_with("//")),
            }
        }
    }

    pub(crate) fn words_per_line(self) -> f64 {
        self.words as f64 / self.lines.max(1) as f64
    }
}

pub(crate) fn doc_blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block = String::new();
    for line in text.lines().chain([""]) {
        match line.trim_start().strip_prefix("///") {
            Some(words) => block += words,
            None if !block.is_empty() => blocks.push(std::mem::take(&mut block)),
            None => {}
        }
    }
    blocks
}
