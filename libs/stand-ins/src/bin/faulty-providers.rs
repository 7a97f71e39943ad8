//! `faulty-providers SEED ACCEPTED READY [STALLS]` runs providers of every channel that fail by the seed's chance, and leave
//! the share STALLS of calls without an answer. What they take is listed in the file ACCEPTED, what goes wrong beside it in
//! `faults.txt`; once they listen, the file READY says how to reach them: `{"pushOrigin","providers":[documents of `tidings provider set`]}`. They run until they
//! are killed.

use std::path::Path;

use anyhow::Context;
use serde_json::json;
use stand_ins::faults::Shares;
use stand_ins::faulty::{FaultyProviders, SHARES};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seed, accepted, ready, stalls) = match &arguments[..] {
        [seed, accepted, ready] => (seed, accepted, ready, None),
        [seed, accepted, ready, stalls] => (seed, accepted, ready, Some(stalls)),
        _ => anyhow::bail!("usage: faulty-providers SEED ACCEPTED READY [STALLS]"),
    };
    let seed = seed.parse().context("SEED is no number")?;
    let stall = stalls.map(|stalls| stalls.parse()).transpose().context("STALLS is no share")?;
    let shares = Shares { stall: stall.unwrap_or(SHARES.stall), ..SHARES };
    let accepted = Path::new(accepted);
    let providers =
        FaultyProviders::start(seed, shares, accepted, &accepted.with_file_name("faults.txt")).await?;
    let text = json!({"pushOrigin": providers.push_origin(), "providers": providers.documents()}).to_string();
    let draft = Path::new(ready).with_extension("draft");
    std::fs::write(&draft, text).with_context(|| format!("cannot write {}", draft.display()))?;
    std::fs::rename(&draft, ready)?;
    std::future::pending().await
}
