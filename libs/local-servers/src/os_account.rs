//! The account under which PostgreSQL and PgBouncer run if this process runs as root.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use anyhow::Context;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OsAccount {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl OsAccount {
    /// Chooses an account, because PostgreSQL refuses to run as root: the owner of `directory`, or if that is root, `postgres` or `nobody`.
    /// None if this process does not run as root.
    pub(crate) fn for_postgres(directory: &Path) -> anyhow::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let owner = std::fs::metadata(directory)?;
        if owner.uid() != 0 {
            return Ok(Some(Self { uid: owner.uid(), gid: owner.gid() }));
        }
        let accounts = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        find(&accounts, "postgres").or_else(|| find(&accounts, "nobody")).map(Some).context(
            "PostgreSQL cannot run as root, and there is no account `postgres` or `nobody` to run it as",
        )
    }

    pub(crate) fn take(self, path: &Path) -> anyhow::Result<()> {
        chown(path, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot change the owner of {}", path.display()))
    }
}

fn find(accounts: &str, name: &str) -> Option<OsAccount> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        Some(OsAccount { uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_numbers_of_an_account() {
        let accounts =
            "root:x:0:0:root:/root:/bin/bash\npostgres:x:101:104:PostgreSQL,,,:/var/lib:/bin/bash\n";
        assert_eq!(find(accounts, "postgres").unwrap(), OsAccount { uid: 101, gid: 104 });
        assert_eq!(find(accounts, "nobody"), None);
    }
}
