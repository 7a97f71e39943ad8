//! Kills the process at the crash point that the environment names.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

use crate::{CRASH_AT, CRASHES, CrashPoint};

/// Crash point at which the process kills itself, and the number of the call at which it does so.
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

pub(crate) fn die(point: CrashPoint) {
    if let Some(path) = std::env::var_os(CRASHES)
        && let Ok(mut crashes) = OpenOptions::new().append(true).create(true).open(path)
    {
        // Use a single write, so that the lines of different processes do not mix. If the write fails, the process still dies,
        // but the test does not count the crash.
        crashes.write_all(format!("{} {}\n", point.as_str(), getpid()).as_bytes()).ok();
    }
    while kill_process(getpid(), Signal::KILL).is_err() {}
}
