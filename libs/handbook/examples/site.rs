//! Writes the guides as a static site: `cargo run -p handbook --example site DIRECTORY [OPENAPI]`.

use std::error::Error;
use std::path::Path;
use std::{env, fs};

use handbook::Site;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().ok_or("usage: site DIRECTORY [OPENAPI]")?;
    let document = arguments.next().map(fs::read_to_string).transpose()?;
    let document: serde_json::Value =
        document.as_deref().map_or(Ok(serde_json::Value::Null), serde_json::from_str)?;
    let root = Path::new(&directory);
    let write = |path: &str, text: &[u8]| -> Result<(), Box<dyn Error>> {
        let path = root.join(path);
        fs::create_dir_all(path.parent().ok_or("a path without a folder")?)?;
        Ok(fs::write(path, text)?)
    };
    let site = if document.is_null() { Site::GuidesOnly } else { Site::WithReference };
    for page in handbook::pages() {
        write(&format!("guide/{}/index.html", page.name()), page.html(site).as_bytes())?;
        let name = page.name();
        write(
            &format!("guide/{}.md", if name.is_empty() { "overview" } else { &name }),
            page.markdown().as_bytes(),
        )?;
    }
    for (name, bytes) in handbook::images() {
        write(&format!("guide/{name}"), bytes)?;
    }
    write("docs/handbook.css", handbook::STYLE.as_bytes())?;
    write("docs/handbook.js", handbook::SCRIPT.as_bytes())?;
    if !document.is_null() {
        write("docs/index.html", handbook::reference(&document).as_bytes())?;
        write("openapi.json", serde_json::to_string(&document)?.as_bytes())?;
    }
    write("docs/search.json", handbook::search_index(&handbook::operations(&document)).as_bytes())?;
    write("llms.txt", handbook::llms().as_bytes())?;
    write("llms-full.txt", handbook::llms_full().as_bytes())?;
    Ok(())
}
