//! `faulty-providers SEED ACCEPTED READY` runs stand-ins for providers of every channel until it is killed. Calls to
//! them fail at random; the seed determines which calls fail, and with which fault. The program appends accepted
//! messages to the file ACCEPTED, and faults to the file `faults.txt` next to it. When the providers listen, it writes a
//! JSON object to the file READY: `pushOrigin` is the origin of the push service for browsers, and `providers` are
//! documents for `tidings provider set`.

use std::path::Path;

use anyhow::Context;
use serde_json::json;
use stand_ins::faulty::{self, SHARES};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seed, accepted, ready] = &arguments[..] else {
        anyhow::bail!("usage: faulty-providers SEED ACCEPTED READY");
    };
    let seed = seed.parse().context("SEED is not a number")?;
    let accepted = Path::new(accepted);
    let providers = faulty::start(seed, SHARES, accepted, &accepted.with_file_name("faults.txt")).await?;
    let text =
        json!({"pushOrigin": providers.push_service.url(), "providers": providers.documents()}).to_string();
    let draft = Path::new(ready).with_extension("draft");
    std::fs::write(&draft, text).with_context(|| format!("cannot write {}", draft.display()))?;
    std::fs::rename(&draft, ready)?;
    std::future::pending().await
}
