//! Schedules read back from their text.
