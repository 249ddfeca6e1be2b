pub mod counts;
pub mod incidence;
pub mod layout;
pub mod mask;
pub mod sizes;
