//! The whole system, simulated: two processes of each kind, the log, the database, providers and people, in one thread
//! and without a clock.
//!
//! What is decided is decided by the code of the services: planning ([`domain::plan`]), claims and settlements
//! ([`domain::protocol`]), what follows an attempt ([`domain::attempt`]), which provider is asked ([`domain::route`],
//! [`domain::breaker`], [`domain::pace`]), identifiers ([`domain::id`]), and what a batch of events comes down to
//! ([`domain::inbox::fold`]). Everything around that does I/O is played here, step by step: one step is one transaction,
//! one publication, one acknowledgement or one call. A step can be done, fail, or be done without its answer being heard;
//! between any two, a process can crash or stand still, time can pass, and the log can hand a message out again.
//!
//! - A **history** is a list of choices ([`choice`]), drawn from a seed ([`history`]). After the last one faults end, and
//!   everything has to come to rest.
//! - The **rules** ([`rule`]) are held against it on the way ([`check`]) and at its end ([`check_end`]).
//! - A history that breaks one **shrinks** ([`shrink`]) to a few choices, and is printed step by step.
//! - [`random`] plays histories by seed and tells how fast, [`sweep`] breaks short ones at every step, [`mutants`] shows
//!   that each rule can be broken.
//!
//! `TIDINGS_SIMULATION_SEED=n` plays one history, `TIDINGS_SIMULATION_HISTORIES=n` so many:
//! `cargo nextest run --workspace --test simulation`.
//! With `--config profile.dev.package.domain.opt-level=2`, five times as many are played a second.
//!
//! What is not played: receipts, redriving, full streams, the janitor. The statements that do these steps in
//! PostgreSQL are held against [`domain::protocol`] by `libs/store/tests/store/protocol.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod call;
mod check;
mod check_end;
mod choice;
mod client;
mod dice;
mod directory;
mod dispatcher;
mod gateway;
mod history;
mod ledger;
mod log;
mod mutant;
mod mutants;
mod projection;
mod providers;
mod random;
mod read_model;
mod rule;
mod shrink;
mod store;
mod sweep;
mod timers;
mod watch;
mod worker;
mod world;
