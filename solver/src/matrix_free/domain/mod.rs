pub mod counts;
pub mod fields;
pub mod incidence;
pub mod layout;
pub mod mask;
pub mod sizes;
