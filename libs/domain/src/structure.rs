//! Estimates the memory that a JSON text needs when parsed: `[{"":0},…]` needs many times its length, a long string does not.

/// Estimated bytes of an object with few members: one node of its B-tree.
const CONTAINER: usize = 640;
/// Estimated bytes of each value after the first in its container, including the spare capacity of an array.
const VALUE: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Bytes outside of strings; quotes count as outside.
    pub outside: usize,
    pub containers: usize,
    pub separators: usize,
}

impl Structure {
    /// One pass, without recursion or allocation.
    #[must_use]
    pub fn of(text: &[u8]) -> Structure {
        let mut structure = Structure { outside: 0, containers: 0, separators: 0 };
        let mut rest = text.iter();
        while let Some(&byte) = rest.next() {
            structure.outside += 1;
            match byte {
                b'{' | b'[' => structure.containers += 1,
                b',' => structure.separators += 1,
                b'"' if skip_text(&mut rest) => structure.outside += 1,
                _ => {}
            }
        }
        structure
    }

    /// Estimated bytes of the parsed value, in addition to its text.
    #[must_use]
    pub fn memory(self) -> usize {
        // In valid JSON, at least one other byte precedes each comma, so at most half of the bytes are commas.
        self.containers * CONTAINER + self.separators.min(self.outside / 2) * VALUE
    }
}

/// Estimated bytes of a JSON text and its parsed value together.
#[must_use]
pub fn json_memory(text: &[u8]) -> usize {
    text.len() + Structure::of(text).memory()
}

/// Starts after the opening quote; returns false if the closing quote is missing.
fn skip_text<'a>(rest: &mut impl Iterator<Item = &'a u8>) -> bool {
    while let Some(&byte) = rest.next() {
        match byte {
            b'"' => return true,
            b'\\' => {
                rest.next();
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_strings_are_not_counted() {
        for (text, outside, containers, separators) in [
            ("", 0, 0, 0),
            ("0", 1, 0, 0),
            (r#""""#, 2, 0, 0),
            (r#"["[{",{"]":"}"}]"#, 12, 2, 1),
            (r#"["\"[",[],"\\",{}]"#, 13, 3, 3),
            (r#"["\\\"[[["]"#, 4, 1, 0),
            (r#"["unended [[["#, 2, 1, 0),
            (r#"["\"#, 2, 1, 0),
            ("[[[[", 4, 4, 0),
            (" { \n } ", 7, 1, 0),
            (r#"["ä\u0022["]"#, 4, 1, 0),
        ] {
            assert_eq!(
                Structure::of(text.as_bytes()),
                Structure { outside, containers, separators },
                "{text}"
            );
        }
    }
}
