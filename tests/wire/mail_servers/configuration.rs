//! Configurations of the mail servers. Each accepts emails to `ada@example.org` only, and knows the user `shop` with the password `secret`.

use domain::Outcome;

pub(crate) struct Configuration {
    /// Debian package.
    pub(crate) package: &'static str,
    /// Files by name. In their text, names in braces are replaced. The first file is private.
    pub(crate) files: &'static [(&'static str, &'static str)],
    /// Text of `{pipelining}` with and without PIPELINING.
    pub(crate) pipelining: (&'static str, &'static str),
    /// Values of the setting `security` with which the server is tried.
    pub(crate) securities: &'static [&'static str],
    /// Security with which the server offers a login: `any`, or one of the values of the setting.
    pub(crate) login: Option<&'static str>,
    /// Outcome for a recipient that does not exist.
    pub(crate) unknown: Outcome,
    /// True if the server passes emails on during the conversation.
    pub(crate) relays: bool,
}

pub(crate) const OPENSMTPD: Configuration = Configuration {
    package: "opensmtpd",
    files: &[
        (
            "smtpd.conf",
            r#"
pki test cert "{folder}/certificate.pem"
pki test key "{folder}/key.pem"
table users { shop = "$6$tidings$QSEpYZ5hzqsRYIUOIQDqhrvWxaKRWJlwVPwSnb7Ddv9rrhlWC6cZHn3vkt8Cx/F0ybTA0Y0Ak5rgHSgY.yxfs1" }
table recipients { ada@example.org }
listen on 127.0.0.1 port {port} tls pki test auth-optional <users> hostname opensmtpd.invalid
action "keep" mda "/bin/cat >/dev/null" virtual { "@example.org" = games }
match from any for rcpt-to <recipients> action "keep"
"#,
        ),
        (
            "start.sh",
            "mkdir -p /var/lib/opensmtpd/empty /var/spool/smtpd\nchmod 711 /var/spool/smtpd\nexec smtpd -d -f smtpd.conf\n",
        ),
    ],
    // Debian's OpenSMTPD ends each TLS handshake with an error: its process for keys does not work with OpenSSL 3.
    securities: &["none"],
    pipelining: ("", ""),
    login: None,
    // OpenSMTPD answers 550 without an enhanced code.
    unknown: Outcome::Failed,
    relays: false,
};

pub(crate) const POSTFIX: Configuration = Configuration {
    package: "postfix",
    files: &[
        (
            "main.cf",
            r"
compatibility_level = 3.6
queue_directory = /var/spool/postfix
data_directory = /var/lib/postfix
daemon_directory = /usr/lib/postfix/sbin
command_directory = /usr/sbin
shlib_directory = /usr/lib/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = postfix.invalid
mydestination = example.org
local_recipient_maps = inline:{ada=known}
alias_maps =
local_transport = discard:
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks =
smtpd_relay_restrictions = reject_unauth_destination
smtpd_tls_cert_file = {folder}/certificate.pem
smtpd_tls_key_file = {folder}/key.pem
smtpd_tls_security_level = may
smtpd_discard_ehlo_keywords = {pipelining}
",
        ),
        (
            "master.cf",
            "127.0.0.1:{port} inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
tlsmgr unix - - n 1000? 1 tlsmgr
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
discard unix - - n - - discard
error unix - - n - - error
",
        ),
        (
            "start.sh",
            "mkdir -p /var/lib/postfix /var/spool/postfix
cd /var/spool/postfix
mkdir active bounce corrupt defer deferred flush hold incoming private saved trace maildrop public pid
chown postfix /var/lib/postfix active bounce corrupt defer deferred flush hold incoming private saved trace
chown postfix:postdrop maildrop public
chmod 700 active bounce corrupt defer deferred flush hold incoming private saved trace
chmod 730 maildrop
chmod 710 public
exec /usr/lib/postfix/sbin/master -c {folder}
",
        ),
    ],
    securities: &["none", "starttls"],
    pipelining: ("silent-discard", "pipelining"),
    login: None,
    unknown: Outcome::GONE,
    relays: false,
};

pub(crate) const EXIM: Configuration = Configuration {
    package: "exim4-daemon-light",
    files: &[
        (
            "exim.conf",
            r"
exim_user = Debian-exim
exim_group = Debian-exim
primary_hostname = exim.invalid
spool_directory = /var/spool/exim4
log_file_path = /var/log/exim4/%slog
tls_advertise_hosts = *
tls_certificate = /run/certificate.pem
tls_privatekey = /run/key.pem
pipelining_advertise_hosts = {pipelining}
acl_smtp_rcpt = recipient
queue_only = true
keep_environment =
begin acl
recipient:
  accept domains = example.org
         local_parts = ada
  deny message = 5.1.1 no such user
begin routers
drop:
  driver = redirect
  data = :blackhole:
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_prompts = :
  server_condition = ${if and {{eq{$auth2}{shop}}{eq{$auth3}{secret}}}}
  server_advertise_condition = true
login:
  driver = plaintext
  public_name = LOGIN
  server_prompts = Username:: : Password::
  server_condition = ${if and {{eq{$auth1}{shop}}{eq{$auth2}{secret}}}}
  server_advertise_condition = true
",
        ),
        (
            "start.sh",
            "mkdir -p /var/spool/exim4 /var/log/exim4
cp certificate.pem key.pem /run
chown Debian-exim:Debian-exim /var/spool/exim4 /var/log/exim4 /run/*.pem
exec exim4 -C {folder}/exim.conf -bdf -oX 127.0.0.1.{port}
",
        ),
    ],
    securities: &["none", "starttls"],
    pipelining: ("*", ""),
    login: Some("any"),
    unknown: Outcome::GONE,
    relays: false,
};

pub(crate) const DOVECOT: Configuration = Configuration {
    package: "dovecot-core",
    files: &[
        (
            "dovecot.conf",
            r"
base_dir = /run/dovecot
log_path = /dev/stderr
protocols = submission
ssl = yes
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
ssl_min_protocol = TLSv1.2
disable_plaintext_auth = no
auth_mechanisms = plain login
first_valid_uid = 1
passdb {
  driver = static
  args = password=secret
}
userdb {
  driver = static
  args = uid=dovecot gid=dovecot home=/var/lib/dovecot/mail
}
mail_location = maildir:/var/lib/dovecot/mail
submission_relay_host = 127.0.0.1
submission_relay_port = {behind}
service submission-login {
  chroot =
  inet_listener submission {
    address = 127.0.0.1
    port = {port}
  }
}
service anvil {
  chroot =
}
",
        ),
        (
            "start.sh",
            "mkdir -p /var/lib/dovecot/mail\nchown -R dovecot:dovecot /var/lib/dovecot\nexec dovecot -F -c {folder}/dovecot.conf\n",
        ),
    ],
    securities: &["none", "starttls"],
    pipelining: ("", ""),
    login: Some("any"),
    unknown: Outcome::GONE,
    relays: true,
};
