//! Lists the documentation of the repository, so that the program contains every page without a list to maintain.

use std::borrow::Cow;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const AT_ROOT: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
const FOLDERS: [&str; 2] = ["docs", "clients"];
/// Folders with files that are not ours.
const FOREIGN: &str = "node_modules";

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let mut files: Vec<PathBuf> = AT_ROOT.iter().map(|name| root.join(name)).collect();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let texts: Result<Vec<String>, _> =
        files.iter().filter(|file| has_extension(file, "md")).map(fs::read_to_string).collect();
    let texts = texts?.concat();
    let (mut pages, mut images) = (String::new(), String::new());
    for file in &files {
        println!("cargo::rerun-if-changed={}", file.display());
        let name = file.strip_prefix(&root)?.display();
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("md") => writeln!(pages, "({:?}, include_str!({file:?})),", name.to_string())?,
            // Most pictures only document how pages look, and no page shows them.
            Some("png") if texts.contains(&*file_name(file)) => {
                writeln!(images, "({:?}, include_bytes!({file:?})),", name.to_string())?;
            }
            _ => {}
        }
    }
    let code = format!(
        "/// Markdown files by their path in the repository.\npub(crate) const PAGES: &[(&str, &str)] = &[{pages}];\n\
         /// Images by their path in the repository.\npub(crate) const IMAGES: &[(&str, &[u8])] = &[{images}];\n"
    );
    fs::write(Path::new(&env::var("OUT_DIR")?).join("sources.rs"), code)?;
    Ok(())
}

fn has_extension(file: &Path, wanted: &str) -> bool {
    file.extension().is_some_and(|extension| extension == wanted)
}

fn file_name(file: &Path) -> Cow<'_, str> {
    file.file_name().map(OsStr::to_string_lossy).unwrap_or_default()
}

/// Adds the files of a folder. Cargo reruns this program when a file is added to the folder or removed from it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with(FOREIGN) {
                collect(&path, files)?;
            }
        } else if has_extension(&path, "md") || has_extension(&path, "png") {
            files.push(path);
        }
    }
    Ok(())
}
