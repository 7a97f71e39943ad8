use std::path::PathBuf;

use anyhow::ensure;

use crate::provision;

/// Unpacks the packages, because Debian's mail servers exclude each other if they are installed.
const UNPACK: &str = r#"
rm -rf "$tools/unpacking"
mkdir -p "$tools/unpacking"
cd "$tools/unpacking"
for package in opensmtpd postfix exim4-daemon-light dovecot-core dovecot-submissiond; do
  apt-cache depends "$package" | sed -n 's/^  Depends: \(lib[^ <]*\)$/\1/p' | xargs apt-get install -y --no-install-recommends
  apt-get download "$package"
done
for package in opensmtpd postfix exim4-daemon-light dovecot-core; do dpkg -x "$package"_*.deb "$package"; done
dpkg -x dovecot-submissiond_*.deb dovecot-core
rm ./*.deb
chmod -R a+rX .
rm -rf "$tools/mail-servers"
mv "$tools/unpacking" "$tools/mail-servers""#;

pub(crate) fn unpacked() -> anyhow::Result<()> {
    let tools = crate::private_directory().join("tools");
    provision::program("mail servers", find, |found| {
        provision::apt(&format!("tools='{}'\n{UNPACK}", tools.display()), found)
    })
}

fn find() -> anyhow::Result<PathBuf> {
    let folder = crate::private_directory().join("tools").join("mail-servers");
    ensure!(folder.exists(), "OpenSMTPD, Postfix, Exim and Dovecot are missing in {}", folder.display());
    Ok(folder)
}
