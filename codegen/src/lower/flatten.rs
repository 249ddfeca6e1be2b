//! From coordinates to flat buffers.
