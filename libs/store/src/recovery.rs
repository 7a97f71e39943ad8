pub mod restore;
pub mod shadow;
