use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use crate::refused::InvalidInput;

/// Maximum size, in bytes.
const LONGEST: u64 = 1024 * 1024;

/// Source of a JSON document: a file or standard input.
#[derive(Debug, clap::Args)]
pub(crate) struct DocumentSource {
    /// JSON file with the document [default: standard input, also as `-`]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl DocumentSource {
    /// `-` is standard input.
    pub(crate) fn of(file: &Path) -> DocumentSource {
        DocumentSource { file: Some(file.to_owned()) }
    }

    pub(crate) fn name(&self) -> String {
        match self.path() {
            Some(path) => path.display().to_string(),
            None => "standard input".to_owned(),
        }
    }

    pub(crate) fn read(&self) -> anyhow::Result<Value> {
        let bytes = match self.path() {
            Some(path) => read_within_limit(
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?,
            ),
            None => read_within_limit(std::io::stdin().lock()),
        };
        let name = self.name();
        let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
        if bytes.len() as u64 > LONGEST {
            return Err(InvalidInput(format!("{name} exceeds the limit of {LONGEST} bytes")).into());
        }
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| InvalidInput(format!("{name} is not JSON: {error}")))?;
        Ok(value)
    }

    fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| *path != Path::new("-"))
    }
}

fn read_within_limit(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_up_to_one_byte_more_than_its_bound() {
        for (sent, read) in [(LONGEST, LONGEST), (LONGEST + 1, LONGEST + 1), (u64::MAX, LONGEST + 1)] {
            let source = std::io::repeat(b' ').take(sent);
            assert_eq!(read_within_limit(source).unwrap().len() as u64, read);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(LONGEST + 1).unwrap();
        let refused = DocumentSource { file: Some(file.path().to_owned()) }.read().unwrap_err();
        assert!(refused.to_string().ends_with("exceeds the limit of 1048576 bytes"), "{refused}");
    }
}
