//! A mail server from a Debian package that is unpacked but not installed, because Debian's mail servers exclude each other.
//!
//! It runs in its own namespaces: the package's files appear in /usr, its users exist, and its queue is in memory. All its processes end
//! with the shell that started it, and the shell ends when this process closes its input.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stand_ins::tls::Authority;
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::LIMIT;
use super::configuration::Configuration;

const START: &str = r#"
set -e
mount -t overlay overlay -o "lowerdir=$1/etc:/etc" /etc
mount -t overlay overlay -o "lowerdir=$2/usr:/usr" /usr
for folder in /run /var/lib /var/log /var/spool; do mount -t tmpfs -o mode=755 tmpfs $folder; done
cd "$1"
. ./start.sh >output 2>&1 </dev/null &
cat >/dev/null
"#;

pub(crate) struct Program {
    /// Port of the server, on 127.0.0.1.
    pub(crate) port: u16,
    folder: TempDir,
    shell: Child,
}

impl Program {
    /// Starts a server and waits until it accepts connections. A server that only relays sends emails to the port `behind`.
    pub(crate) async fn start(
        configuration: &Configuration,
        authority: &Authority,
        behind: u16,
        pipelining: bool,
    ) -> Program {
        let unpacked = unpacked().join(configuration.package);
        let hint = "the mail servers are missing: run `cargo xtask test --test wire` once";
        assert!(unpacked.join("usr").exists(), "{hint}");
        let port = local_servers::port::free().unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::create_dir(path.join("etc")).unwrap();
        for (file, users) in [("passwd", true), ("group", false)] {
            let text = accounts(&std::fs::read_to_string(Path::new("/etc").join(file)).unwrap(), users);
            std::fs::write(path.join("etc").join(file), text).unwrap();
        }
        let certificate = authority.server_pem();
        std::fs::write(path.join("certificate.pem"), &certificate.certificate).unwrap();
        std::fs::write(path.join("key.pem"), &certificate.key).unwrap();
        let pipelining = if pipelining { configuration.pipelining.0 } else { configuration.pipelining.1 };
        for (name, text) in configuration.files {
            let text = text
                .replace("{folder}", path.to_str().unwrap())
                .replace("{port}", &port.to_string())
                .replace("{behind}", &behind.to_string())
                .replace("{pipelining}", pipelining);
            std::fs::write(path.join(name), text).unwrap();
        }
        for name in ["key.pem", configuration.files[0].0] {
            std::fs::set_permissions(path.join(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
        let shell = shell(path, &unpacked);
        let program = Program { port, folder, shell };
        let listens = async || TcpStream::connect(("127.0.0.1", port)).await.ok();
        testkit::eventually(LIMIT, "the mail server listens", listens).await;
        program
    }

    /// Text that the server has printed so far.
    pub(crate) fn output(&self) -> String {
        let read = std::fs::read(self.folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&read).into_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the mail server printed: {}", self.output());
        }
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

/// Folder with one folder for each unpacked package.
fn unpacked() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(".tidings/tools/mail-servers")
}

/// Starts a shell as root in new namespaces. Only root may use the users of a server.
fn shell(folder: &Path, unpacked: &Path) -> Child {
    let as_root = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", START, "sh"];
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let (program, before) = if is_root { ("env", &[][..]) } else { ("sudo", &["-n"][..]) };
    Command::new(program)
        .args(before)
        .args(as_root)
        .args([folder, unpacked])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Adds the users or groups of the mail servers to a file such as /etc/passwd.
fn accounts(existing: &str, users: bool) -> String {
    let mut text = existing.trim_end().to_owned() + "\n";
    let names = ["Debian-exim", "opensmtpd", "opensmtpq", "dovecot", "dovenull", "postfix", "postdrop"];
    for (name, id) in names.into_iter().zip(901..) {
        if !existing.lines().any(|line| line.starts_with(&format!("{name}:"))) {
            let rest = if users { format!("{id}::/nonexistent:/usr/sbin/nologin") } else { String::new() };
            text += &format!("{name}:x:{id}:{rest}\n");
        }
    }
    text
}
