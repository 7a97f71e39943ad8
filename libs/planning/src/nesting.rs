//! Limits the nesting of a text before it is parsed. The engine's parser, its compiler, and the destructor of the syntax tree recurse, and
//! a thread whose stack overflows ends its process. The tokenizer does not recurse.

use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::growth::UnboundedText;

/// Operators in one tag. Each can nest the expression by one level.
const MOST_OPERATORS: u32 = 150;
/// Operators that are words.
const WORDS: [&str; 7] = ["and", "else", "if", "in", "is", "not", "or"];
/// Brackets that are open at the same time in one tag.
const MOST_BRACKETS: u32 = 16;
/// Blocks, such as `if` and `for`, that are open at the same time.
const MOST_BLOCKS: usize = 32;
/// Number of `elif` of the open blocks. The parser nests each into the one before it.
const MOST_CHOICES: usize = 100;
/// Statements that end with a second tag.
const BLOCKS: [&str; 6] = ["autoescape", "filter", "for", "if", "set", "with"];

#[derive(Default)]
struct Tag<'a> {
    is_block: bool,
    name: Option<&'a str>,
    has_value: bool,
    operators: u32,
    brackets: u32,
}

pub(crate) fn check(text: &str) -> Result<(), UnboundedText> {
    // Open blocks: the number of `elif` that each of them has so far.
    let mut open: Vec<usize> = Vec::new();
    let mut tag = Tag::default();
    // If a token is invalid, the parser reports it. It has parsed only the tokens before that one.
    for (token, span) in tokenize(text, false, SyntaxConfig::default()).map_while(Result::ok) {
        match token {
            Token::TemplateData(_) | Token::VariableEnd => {}
            Token::VariableStart => tag = Tag::default(),
            Token::BlockStart => tag = Tag { is_block: true, ..Tag::default() },
            Token::BlockEnd => {
                count_block(&tag, &mut open);
                check_blocks(&open, span)?;
            }
            other => tag.count(&other),
        }
        tag.check(span)?;
    }
    Ok(())
}

fn check_blocks(open: &[usize], span: Span) -> Result<(), UnboundedText> {
    if open.len() > MOST_BLOCKS {
        return refused(span, format!("at most {MOST_BLOCKS} blocks can be nested"));
    }
    if open.iter().sum::<usize>() > MOST_CHOICES {
        return refused(
            span,
            format!("an if can have at most {MOST_CHOICES} elif; use an object and look up the value"),
        );
    }
    Ok(())
}

fn count_block(tag: &Tag<'_>, open: &mut Vec<usize>) {
    match tag.name {
        Some("elif") => {
            if let Some(tags) = open.last_mut() {
                *tags += 1;
            }
        }
        Some(name) if name.starts_with("end") => drop(open.pop()),
        // `set` with a value has no second tag.
        Some("set") if tag.has_value => {}
        Some(name) if BLOCKS.contains(&name) => open.push(0),
        _ => {}
    }
}

impl<'a> Tag<'a> {
    fn count(&mut self, token: &Token<'a>) {
        match token {
            Token::Ident(name) if self.is_block && self.name.is_none() => self.name = Some(name),
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            Token::Comma | Token::Colon => {}
            Token::Ident(name) if !WORDS.contains(name) => {}
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.brackets = self.brackets.saturating_sub(1);
            }
            token => {
                self.has_value |= matches!(token, Token::Assign) && self.brackets == 0;
                self.operators += 1;
                if matches!(token, Token::BracketOpen | Token::ParenOpen | Token::BraceOpen) {
                    self.brackets += 1;
                }
            }
        }
    }

    fn check(&self, span: Span) -> Result<(), UnboundedText> {
        if self.operators > MOST_OPERATORS {
            let advice = format!(
                "one tag can have at most {MOST_OPERATORS} operators; divide the expression with {{% set %}}"
            );
            return refused(span, advice);
        }
        if self.brackets > MOST_BRACKETS {
            return refused(span, format!("at most {MOST_BRACKETS} brackets can be nested"));
        }
        Ok(())
    }
}

fn refused(span: Span, advice: String) -> Result<(), UnboundedText> {
    Err(UnboundedText { line: u32::from(span.start_line), advice })
}
