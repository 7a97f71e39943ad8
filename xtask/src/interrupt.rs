use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::steps;

/// While it exists, SIGINT and SIGTERM do not end this process.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn watch() -> anyhow::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// The command has its own process group, so the terminal does not send Ctrl-C to it. This process sends it one SIGINT instead.
    pub(crate) fn passed_on_to(&self, command: &mut Command) -> anyhow::Result<ExitCode> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.process_group(0).spawn().with_context(|| format!("cannot start {name}"))?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(steps::exit_code(status));
            }
            if self.0.swap(false, Ordering::Relaxed) {
                rustix::process::kill_process(Pid::from_child(&child), Signal::INT)?;
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}
