//! The admin API: who may call what, that answers are as the document describes, and what malformed calls get.

mod access;
mod calls;
mod contract;
mod limits;
mod malformed;
mod setup;
