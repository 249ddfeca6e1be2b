//! The demos, and what they need: file formats ([`io`]), pictures ([`render`], [`warp`], [`plot`]).

pub mod deconvolution;
pub mod demos;
pub mod demosaicking;
pub mod energies;
mod geometry;
pub mod io;
pub mod panels;
pub mod pipelines;
pub mod plot;
mod pyramid;
mod random;
mod raster;
pub mod render;
pub mod warp;

pub use geometry::Vec3;
