//! Rebuilds the crate when a migration or a file in `.sqlx` changes: the build reads both.
//!
//! The macros of sqlx check statements against their descriptions in `.sqlx`, even if a developer has set DATABASE_URL. Only
//! `cargo xtask sql` checks them against a database; it passes the URL in a separate environment variable.

/// Environment variable with the URL of a database that has the current schema but no data.
const DATABASE: &str = "TIDINGS_STATEMENTS_DATABASE_URL";

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    println!("cargo:rerun-if-changed=.sqlx");
    println!("cargo:rerun-if-env-changed={DATABASE}");
    match std::env::var(DATABASE) {
        Ok(url) => println!("cargo:rustc-env=DATABASE_URL={url}\ncargo:rustc-env=SQLX_OFFLINE=false"),
        Err(_) => println!("cargo:rustc-env=SQLX_OFFLINE=true"),
    }
}
