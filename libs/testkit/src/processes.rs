use std::path::Path;
use std::time::Duration;

/// Command lines of other processes that contain the path `needle`, or whose working directory is inside it.
#[must_use]
#[allow(clippy::unwrap_used, reason = "this is how a test fails")]
pub fn naming(needle: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let needle = needle.to_str().unwrap();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name != own && name.parse::<u32>().is_ok())
        })
        .filter_map(|entry| {
            let line = String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).ok()?)
                .replace('\0', " ");
            let place = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            (line.contains(needle) || place.starts_with(needle)).then_some(line)
        })
        .collect()
}

/// Waits until [`naming`] finds no process.
///
/// # Panics
/// Panics after 10 s.
pub async fn gone(needle: &Path) {
    let limit = Duration::from_secs(10);
    crate::eventually(limit, "every process gone", async || naming(needle).is_empty().then_some(())).await;
}
