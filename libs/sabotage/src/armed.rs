use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::{CRASH_AT, CRASHES, CrashPoint, POISON, POISONED};

struct CrashAt {
    point: CrashPoint,
    passage: u64,
    passed: AtomicU64,
}

pub(crate) fn is_due(point: CrashPoint) -> bool {
    static CRASH_AT_POINT: OnceLock<Option<CrashAt>> = OnceLock::new();
    let asked = CRASH_AT_POINT.get_or_init(|| {
        let asked = std::env::var(CRASH_AT).ok()?;
        let (point, passage) = asked.split_once(':')?;
        Some(CrashAt {
            point: CrashPoint::named(point)?,
            passage: passage.parse().ok()?,
            passed: AtomicU64::new(0),
        })
    });
    let Some(at) = asked.as_ref().filter(|at| at.point == point) else { return false };
    at.passed.fetch_add(1, Ordering::Relaxed) + 1 == at.passage
}

pub(crate) fn handle(text: &str) {
    static MARKER: OnceLock<Option<String>> = OnceLock::new();
    let marker = MARKER.get_or_init(|| std::env::var(POISON).ok().filter(|marker| !marker.is_empty()));
    if marker.as_ref().is_some_and(|marker| text.contains(marker)) {
        die_of(POISONED);
    }
}

pub(crate) fn die(point: CrashPoint) {
    die_of(point.as_str());
}

fn die_of(name: &str) {
    if let Some(path) = std::env::var_os(CRASHES)
        && let Ok(mut crashes) = OpenOptions::new().append(true).create(true).open(path)
    {
        // Use a single write, so that the lines of different processes do not mix. If the write fails, the process still dies,
        // but the test does not count the crash.
        crashes.write_all(format!("{name} {}\n", getpid()).as_bytes()).ok();
    }
    while kill_process(getpid(), Signal::KILL).is_err() {}
}
