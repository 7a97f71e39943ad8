//! Meaning of the command_status in responses (section 5.1.3).

use domain::Outcome;

/// Error statuses: value, name and outcome. Each of them means that the message was certainly not accepted.
#[rustfmt::skip]
pub const TABLE: &[(u32, &str, Outcome)] = &[
    (0x01, "ESME_RINVMSGLEN", Outcome::Failed),
    (0x02, "ESME_RINVCMDLEN", Outcome::Failed),
    (0x03, "ESME_RINVCMDID", Outcome::Failed),
    // The message centre considers the session unbound. The session binds again.
    (0x04, "ESME_RINVBNDSTS", Outcome::RETRY),
    (0x05, "ESME_RALYBND", Outcome::RETRY),
    (0x06, "ESME_RINVPRTFLG", Outcome::Failed),
    (0x07, "ESME_RINVREGDLVFLG", Outcome::Failed),
    (0x08, "ESME_RSYSERR", Outcome::RETRY),
    // Invalid sender.
    (0x0a, "ESME_RINVSRCADR", Outcome::PauseProvider),
    (0x0b, "ESME_RINVDSTADR", Outcome::GONE),
    (0x0c, "ESME_RINVMSGID", Outcome::Failed),
    // Login and account.
    (0x0d, "ESME_RBINDFAIL", Outcome::PauseProvider),
    (0x0e, "ESME_RINVPASWD", Outcome::PauseProvider),
    (0x0f, "ESME_RINVSYSID", Outcome::PauseProvider),
    (0x11, "ESME_RCANCELFAIL", Outcome::Failed),
    (0x13, "ESME_RREPLACEFAIL", Outcome::Failed),
    (0x14, "ESME_RMSGQFUL", Outcome::RETRY),
    (0x15, "ESME_RINVSERTYP", Outcome::PauseProvider),
    (0x33, "ESME_RINVNUMDESTS", Outcome::Failed),
    (0x34, "ESME_RINVDLNAME", Outcome::Failed),
    (0x40, "ESME_RINVDESTFLAG", Outcome::Failed),
    (0x42, "ESME_RINVSUBREP", Outcome::Failed),
    (0x43, "ESME_RINVESMCLASS", Outcome::Failed),
    (0x44, "ESME_RCNTSUBDL", Outcome::Failed),
    (0x45, "ESME_RSUBMITFAIL", Outcome::RETRY),
    (0x48, "ESME_RINVSRCTON", Outcome::PauseProvider),
    (0x49, "ESME_RINVSRCNPI", Outcome::PauseProvider),
    (0x50, "ESME_RINVDSTTON", Outcome::Failed),
    (0x51, "ESME_RINVDSTNPI", Outcome::Failed),
    (0x53, "ESME_RINVSYSTYP", Outcome::PauseProvider),
    (0x54, "ESME_RINVREPFLAG", Outcome::Failed),
    (0x55, "ESME_RINVNUMMSGS", Outcome::Failed),
    (0x58, "ESME_RTHROTTLED", Outcome::RETRY),
    (0x61, "ESME_RINVSCHED", Outcome::Failed),
    (0x62, "ESME_RINVEXPIRY", Outcome::Failed),
    (0x63, "ESME_RINVDFTMSGID", Outcome::Failed),
    (0x64, "ESME_RX_T_APPN", Outcome::RETRY),
    (0x65, "ESME_RX_P_APPN", Outcome::Failed),
    (0x66, "ESME_RX_R_APPN", Outcome::Failed),
    (0x67, "ESME_RQUERYFAIL", Outcome::Failed),
    (0xc0, "ESME_RINVOPTPARSTREAM", Outcome::Failed),
    (0xc1, "ESME_ROPTPARNOTALLWD", Outcome::Failed),
    (0xc2, "ESME_RINVPARLEN", Outcome::Failed),
    (0xc3, "ESME_RMISSINGOPTPARAM", Outcome::Failed),
    (0xc4, "ESME_RINVOPTPARAMVAL", Outcome::Failed),
    (0xfe, "ESME_RDELIVERYFAILURE", Outcome::Failed),
    (0xff, "ESME_RUNKNOWNERR", Outcome::RETRY),
];

const SENDER: [&str; 3] = ["ESME_RINVSRCADR", "ESME_RINVSRCTON", "ESME_RINVSRCNPI"];

/// Returns the outcome of a status. A status that is not in the table, such as a vendor-specific one, counts as
/// temporary: the message is retried, and parked after the last retry.
#[must_use]
pub fn outcome(status: u32) -> Outcome {
    TABLE.iter().find(|(known, ..)| *known == status).map_or(Outcome::RETRY, |(.., outcome)| outcome.clone())
}

/// Returns the outcome of a refused bind. Every status that is not temporary pauses the provider, because the account
/// is at fault.
#[must_use]
pub fn outcome_of_bind(status: u32) -> Outcome {
    match outcome(status) {
        retry @ Outcome::Retry { .. } => retry,
        _ => Outcome::PauseProvider,
    }
}

/// Name, or the value in hexadecimal if the specification defines no name.
#[must_use]
pub fn name(status: u32) -> String {
    match TABLE.iter().find(|(known, ..)| *known == status) {
        Some((_, name, _)) => (*name).to_owned(),
        None if status == 0 => "ESME_ROK".to_owned(),
        None => format!("0x{status:08x}"),
    }
}

#[must_use]
pub fn is_about_sender(name: &str) -> bool {
    SENDER.contains(&name)
}
