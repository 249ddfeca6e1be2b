pub mod args;
pub mod print;
pub mod rewrite;
pub mod stmt;
pub mod verify;
