use std::collections::VecDeque;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Capture;

/// An open file of captures. Each line is written with a single call. So a killed process leaves at most one incomplete
/// line, at the end.
#[derive(Debug)]
pub(super) struct CaptureFile {
    path: PathBuf,
    file: File,
    lines: usize,
}

pub(super) struct Contents {
    /// The newest captures, in the order of the file.
    pub(super) captures: VecDeque<Capture>,
    lines: usize,
    /// Length of the file in bytes, without an incomplete last line.
    sound_length: u64,
}

impl CaptureFile {
    /// Opens or creates the file at `path`. Also returns the newest `keep` captures in the file.
    pub(super) fn open(path: &Path, keep: usize) -> io::Result<(Self, VecDeque<Capture>)> {
        let mut file = private().truncate(false).read(true).open(path)?;
        // Files of earlier releases are readable by all accounts.
        file.set_permissions(Permissions::from_mode(0o600))?;
        let contents = read(path, keep)?;
        file.set_len(contents.sound_length)?;
        file.seek(SeekFrom::End(0))?;
        Ok((CaptureFile { path: path.to_owned(), file, lines: contents.lines }, contents.captures))
    }

    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    pub(super) fn append(&mut self, capture: &Capture) -> io::Result<()> {
        let mut line = serde_json::to_vec(capture)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.lines += 1;
        Ok(())
    }

    /// Replaces the contents of the file atomically.
    pub(super) fn rewrite<'a>(&mut self, captures: impl Iterator<Item = &'a Capture>) -> io::Result<()> {
        let draft = self.path.with_extension("draft");
        let mut writer = BufWriter::new(private().truncate(true).open(&draft)?);
        let mut lines = 0;
        for capture in captures {
            serde_json::to_writer(&mut writer, capture)?;
            writer.write_all(b"\n")?;
            lines += 1;
        }
        let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
        std::fs::rename(&draft, &self.path)?;
        (self.file, self.lines) = (file, lines);
        Ok(())
    }
}

/// Creates the directory and its parents, and restricts access to the directory to its owner.
pub(super) fn claim_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Returns options that open a file for writing, and create it with mode 0600.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).write(true).mode(0o600);
    options
}

pub(super) fn read(path: &Path, keep: usize) -> io::Result<Contents> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut contents = Contents { captures: VecDeque::new(), lines: 0, sound_length: 0 };
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
        contents.captures.push_back(serde_json::from_slice(&line)?);
        contents.sound_length += line.len() as u64;
        contents.lines += 1;
        if contents.captures.len() > keep {
            contents.captures.pop_front();
        }
        line.clear();
    }
    Ok(contents)
}

pub(super) mod base64_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }
}
