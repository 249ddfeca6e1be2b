//! Expressions, statements and schedules as text.
