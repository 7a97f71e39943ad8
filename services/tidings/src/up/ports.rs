use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::Context;
use local_servers::port;
use stand_ins::StandInPorts;

use super::print_status;
use crate::private_file;

/// Ports that each start uses again, by name, so that bookmarks and the providers of other apps stay valid.
pub(super) struct KeptPorts {
    file: PathBuf,
    ports: BTreeMap<String, u16>,
}

impl KeptPorts {
    /// Reads the ports of the previous start.
    pub(super) fn read(file: PathBuf) -> anyhow::Result<KeptPorts> {
        let ports = match std::fs::read_to_string(&file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{} is damaged; remove it to choose new ports", file.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        Ok(KeptPorts { file, ports })
    }

    /// Writes the ports for the next start.
    pub(super) fn write(&self) -> anyhow::Result<()> {
        private_file::write(&self.file, &serde_json::to_string_pretty(&self.ports)?)
    }

    /// Returns the kept port, or a new one if there is none or another program uses it. If `wanted` is set, returns only that.
    pub(super) fn choose(&mut self, name: &str, wanted: Option<u16>) -> anyhow::Result<u16> {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != 0) {
            self.ports.insert(name.to_owned(), wanted);
            return Ok(wanted);
        }
        let kept = self.ports.get(name).copied();
        if let Some(kept) = kept
            && port::reserve(kept)?
        {
            return Ok(kept);
        }
        let new = port::free()?;
        if let Some(kept) = kept {
            print_status(&format!(
                "port {kept} ({name}) is in use by another program, so port {new} replaces it; set providers that \
                 use it again, with `tidings provider set APP --stand-in …`"
            ))?;
        }
        self.ports.insert(name.to_owned(), new);
        Ok(new)
    }

    pub(super) fn of_stand_ins(&mut self, outbox: Option<u16>) -> anyhow::Result<StandInPorts> {
        Ok(StandInPorts {
            smtp: self.choose("smtp", None)?,
            apns: self.choose("apns", None)?,
            fcm: self.choose("fcm", None)?,
            push_service: self.choose("push-service", None)?,
            twilio: self.choose("twilio", None)?,
            sms_http: self.choose("sms-http", None)?,
            smsc: self.choose("smpp", None)?,
            outbox: self.choose("outbox", outbox)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::KeptPorts;

    #[test]
    fn a_kept_port_is_used_again_unless_another_program_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ports.json");
        // A port that no other test gets from `port::free`.
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let kept = taken.local_addr().unwrap().port();
        std::fs::write(&file, format!(r#"{{"outbox": {kept}}}"#)).unwrap();
        let mut ports = KeptPorts::read(file.clone()).unwrap();
        let replaced = ports.choose("outbox", None).unwrap();
        assert_ne!(replaced, kept);
        ports.write().unwrap();
        assert_eq!(KeptPorts::read(file.clone()).unwrap().ports["outbox"], replaced);

        drop(taken);
        std::fs::write(&file, format!(r#"{{"outbox": {kept}}}"#)).unwrap();
        assert_eq!(KeptPorts::read(file).unwrap().choose("outbox", None).unwrap(), kept);
    }
}
