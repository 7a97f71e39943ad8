//! Rebuilds the crate when a migration or the description of a statement changes: both are read at compile time.
//!
//! The macros of sqlx check statements against the descriptions in `.sqlx`, even if a developer has set DATABASE_URL. `cargo
//! xtask sql` checks them against a database, which it names in a separate variable.

/// Variable with the URL of an empty database that has the schema.
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
