pub mod algebra;
pub mod associative;
pub mod intervals;

#[cfg(test)]
pub(crate) mod interpret;
