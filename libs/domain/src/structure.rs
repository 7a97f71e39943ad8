//! How much structure a JSON text has, told before it is parsed: `[{"":0},…]` takes many times its length in memory, a long
//! text does not.

/// Bytes that an object with few members takes: a node of its tree.
const CONTAINER: usize = 640;
/// Bytes that each further value takes, with the room that an array keeps for more.
const VALUE: usize = 64;

/// What stands beside the texts of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structure {
    /// Bytes that are not within a text; its quotes are not.
    pub outside: usize,
    /// Objects and arrays.
    pub containers: usize,
    /// Commas.
    pub separators: usize,
}

impl Structure {
    /// One pass over the text, without recursion or allocation.
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

    /// About how many bytes it takes once it is parsed, beside its text.
    #[must_use]
    pub fn memory(self) -> usize {
        // Of a text that is JSON, something stands before each comma.
        self.containers * CONTAINER + self.separators.min(self.outside / 2) * VALUE
    }
}

/// About how many bytes a JSON text and what it is parsed into take.
#[must_use]
pub fn json_memory(text: &[u8]) -> usize {
    text.len() + Structure::of(text).memory()
}

/// Goes beyond the end of a text whose beginning is behind; false if it has none.
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
    fn what_is_within_texts_is_no_structure() {
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
