pub mod diagonal;
