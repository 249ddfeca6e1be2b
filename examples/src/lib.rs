//! The demos, and what they need: file formats ([`io`]), pictures ([`render`], [`warp`], [`plot`]).

pub mod demos;
pub mod energies;
pub mod io;
pub mod panels;
pub mod plot;
mod raster;
pub mod render;
pub mod warp;
