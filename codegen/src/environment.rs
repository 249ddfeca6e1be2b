//! Switches that a user sets in the environment: `SUMSQ_VERIFY`, `SUMSQ_PROFILE`.

/// Is a variable set, and neither empty nor 0?
pub(crate) fn asked(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|v| !v.is_empty() && v != "0")
}
