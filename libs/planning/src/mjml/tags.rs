//! The tags of the template engine in a text, hidden as words while MJML is compiled.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::Range;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use super::MjmlError;
use super::rewritten::Rewritten;

/// Number of characters of a tag in a problem.
const SHOWN: usize = 60;

#[derive(Debug)]
pub(super) struct HiddenTags {
    /// Begins each word. The text does not contain it.
    prefix: String,
    tags: Vec<Range<usize>>,
}

impl HiddenTags {
    /// Replaces each tag by a word. The text is one that the engine has parsed.
    pub(super) fn hide(text: &str) -> (HiddenTags, Rewritten) {
        // A random prefix: a text cannot contain many that are tried.
        let random = || format!("tag{:016x}x", RandomState::new().hash_one(0));
        let mut prefix = random();
        while text.contains(&prefix) {
            prefix = random();
        }
        let mut hidden = Rewritten::default();
        let mut tags = Vec::new();
        let mut from = 0;
        let mut hide = |part: Range<usize>, hidden: &mut Rewritten| {
            if text.get(part.clone()).unwrap_or_default().trim().is_empty() {
                hidden.keep(text, part);
            } else {
                hidden.replace(&format!("{prefix}{}z", tags.len()), part.start);
                tags.push(part);
            }
        };
        for (token, span) in tokenize(text, false, SyntaxConfig::default()).map_while(Result::ok) {
            if let Token::TemplateData(_) = token {
                let kept = span.start_offset as usize..span.end_offset as usize;
                hide(from..kept.start, &mut hidden);
                from = kept.end;
                hidden.keep(text, kept);
            }
        }
        hide(from..text.len(), &mut hidden);
        (HiddenTags { prefix, tags }, hidden)
    }

    /// Replaces the words in the HTML by their tags.
    pub(super) fn put_back(&self, text: &str, html: &str, longest: usize) -> Result<String, MjmlError> {
        let mut whole = String::with_capacity(html.len());
        let mut is_lost = vec![true; self.tags.len()];
        let mut pieces = html.split(&self.prefix);
        whole.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (number, rest) = piece.split_once('z').unwrap_or(("", piece));
            if let Some((lost, tag)) = number
                .parse()
                .ok()
                .and_then(|number: usize| Some((is_lost.get_mut(number)?, self.tags.get(number)?)))
            {
                *lost = false;
                whole.push_str(text.get(tag.clone()).unwrap_or_default());
            }
            whole.push_str(rest);
            if whole.len() > longest {
                break;
            }
        }
        if whole.len() > longest {
            let cause = format!("the compiled HTML has more than {} KB", longest / 1024);
            return Err(MjmlError { line: 1, cause });
        }
        match self.tags.iter().zip(is_lost).find(|(_, lost)| *lost) {
            None => Ok(whole),
            Some((tag, _)) => {
                let shown: String = text.get(tag.clone()).unwrap_or_default().chars().take(SHOWN).collect();
                let cause =
                    format!("the compiled HTML lacks {shown}, because MJML leaves out what stands there");
                Err(MjmlError::new(text, tag.start, cause))
            }
        }
    }
}
