//! Builds the crate anew when a migration is added: the schema is embedded at compile time.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
