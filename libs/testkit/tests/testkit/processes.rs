//! What runs on this machine, as `/proc` tells it.

use std::path::Path;
use std::time::Duration;

/// The command lines of the processes that carry `needle` in theirs or work inside of it, this one excepted.
pub(crate) fn naming(needle: &Path) -> Vec<String> {
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

/// Waits until none is left.
pub(crate) async fn gone(needle: &Path) {
    let limit = Duration::from_secs(10);
    testkit::eventually(limit, "every process gone", async || naming(needle).is_empty().then_some(())).await;
}
