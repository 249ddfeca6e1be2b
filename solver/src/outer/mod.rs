pub mod lm;
