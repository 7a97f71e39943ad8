use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{node, steps};
use anyhow::Context;

/// Build npm packages of the browser clients
///
/// The packages @tidings/client, @tidings/inbox and @tidings/react are built in target/clients, with the version of this workspace and
/// with types. They are not published.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  cargo xtask clients")]
pub(crate) struct Arguments;

/// The version in the manifests of the repository.
const WRITTEN_FOR: &str = "0.5.0";
/// Each may import only from the folders before it.
const FOLDERS: [&str; 3] = ["client", "inbox", "react"];

pub(crate) fn run(_: &Arguments) -> anyhow::Result<ExitCode> {
    node::packages()?;
    let target = steps::target_directory()?;
    let (made, modules) = (target.join("clients"), target.join("node").join("node_modules"));
    if made.exists() {
        std::fs::remove_dir_all(&made)?;
    }
    let source = crate::workspace().join("clients");
    for folder in FOLDERS {
        copy(&source.join(folder), &made.join(folder))
            .with_context(|| format!("cannot copy clients/{folder}"))?;
    }
    // The types are made before the imports are changed, while the folders still find each other.
    let folders = FOLDERS.map(|folder| made.join(folder));
    let config = format!(
        r#"{{"extends": {:?}, "include": {folders:?}, "compilerOptions": {{"noEmit": false, "declaration": true,
        "emitDeclarationOnly": true, "rootDir": "/", "paths": {{"react": [{:?}]}}}}}}"#,
        source.join("tsconfig.json"),
        modules.join("@types/react/index.d.ts")
    );
    let file = made.join("tsconfig.json");
    std::fs::write(&file, config)?;
    // With a root directory of `/` and no output directory, the declarations are written next to the scripts.
    steps::run(Command::new(modules.join(".bin/tsc")).arg("--project").arg(&file))?;
    for folder in FOLDERS {
        let folder = made.join(folder);
        name_imports(&folder)?;
        steps::run(
            Command::new("npm")
                .args(["pack", "--silent", "--pack-destination"])
                .arg(&made)
                .current_dir(&folder),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Copies the files of a package, and gives it the version of the workspace.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    std::fs::copy(crate::workspace().join("LICENSE"), to.join("LICENSE"))?;
    let manifest = to.join("package.json");
    let text = std::fs::read_to_string(&manifest)?;
    Ok(std::fs::write(manifest, text.replace(WRITTEN_FOR, env!("CARGO_PKG_VERSION")))?)
}

/// Replaces relative imports of other packages by the names of these packages.
fn name_imports(folder: &Path) -> anyhow::Result<()> {
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let is_code = path.extension().is_some_and(|extension| extension == "js" || extension == "ts");
        if !is_code {
            continue;
        }
        let mut text = std::fs::read_to_string(&path)?;
        for other in FOLDERS {
            for quote in ['\'', '"'] {
                text = text
                    .replace(
                        &format!("{quote}../{other}/index.js{quote}"),
                        &format!("{quote}@tidings/{other}{quote}"),
                    )
                    .replace(&format!("{quote}../{other}/"), &format!("{quote}@tidings/{other}/"));
            }
        }
        std::fs::write(&path, text)?;
    }
    Ok(())
}
