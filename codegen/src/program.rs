//! Programs: control flow over pipelines, as data.
