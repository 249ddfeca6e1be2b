//! The energies of the demos in the Rust front end; the same as the energy files in `energies/`.

mod deformation;
mod pictures;

pub use deformation::{cotangent_mesh_smoothing, embedded_deformation, robust_nonrigid_alignment};
pub use pictures::{intrinsic_image_decomposition, optical_flow, shape_from_shading};

use sumsq_energy::rust::{EnergyBuilder, rotate_2d, rotate_3d, select};
use sumsq_energy::{Energy, EnergyError};

/// The four neighbours of a pixel.
const NEIGHBOURS: [[i32; 2]; 4] = [[1, 0], [-1, 0], [0, 1], [0, -1]];

/// Smoothing: stay near A, have small differences between neighbours.
pub fn laplacian() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 1, &dims);
    let a = e.array("A", 1, &dims);
    e.energy(0.2 * (x.at([0, 0]) - a.at([0, 0])));
    for neighbour in [[1, 0], [0, 1]] {
        e.energy(x.at([0, 0]) - x.at(neighbour));
    }
    e.finish()
}

/// Fits y = a cos(b x) + b sin(a x) to points: one hyperedge per point joins it to the curve's parameters.
pub fn curve_fitting() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let (n, u) = (e.dim("N"), e.dim("U"));
    let params = e.unknown("funcParams", 2, &[u]);
    let data = e.array("data", 2, &[n]);
    let g = e.graph("G", &[("d", &[n]), ("p", &[u])]);

    let (point, params) = (data.at(&g.vertex("d")), params.at(&g.vertex("p")));
    let (x, y) = (point.channel(0), point.channel(1));
    let (a, b) = (params.channel(0), params.channel(1));
    e.energy(y - (&a * (&b * &x).cos() + &b * (&a * &x).sin()));
    e.finish()
}

/// As-rigid-as-possible deformation of an image: every pixel moves to Offset and turns by Angle.
pub fn image_warping() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let offset = e.unknown("Offset", 2, &dims);
    let angle = e.unknown("Angle", 1, &dims);
    let ur_shape = e.array("UrShape", 2, &dims);
    let constraints = e.array("Constraints", 2, &dims);
    let mask = e.array("Mask", 1, &dims);
    let (w_fit_sqrt, w_reg_sqrt) = (e.param("w_fitSqrt"), e.param("w_regSqrt"));
    let inside = |at: [i32; 2]| mask.at(at).equals(0.0);

    e.exclude(!inside([0, 0]));
    for n in NEIGHBOURS {
        let edge = offset.at([0, 0]) - offset.at(n);
        let rest = ur_shape.at([0, 0]) - ur_shape.at(n);
        let valid = e.in_bounds(n) & inside(n) & inside([0, 0]);
        e.energy(select(valid, &w_reg_sqrt * (edge - rotate_2d(angle.at([0, 0]), rest)), 0.0));
    }
    let dragged = constraints.at([0, 0]).greater_eq(0.0).all();
    e.energy(select(dragged, w_fit_sqrt * (offset.at([0, 0]) - constraints.at([0, 0])), 0.0));
    e.finish()
}

/// As-rigid-as-possible deformation of a mesh: every vertex moves to Offset and turns by the Euler angles Angle.
pub fn arap_mesh_deformation() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let offset = e.unknown("Offset", 3, &[n]);
    let angle = e.unknown("Angle", 3, &[n]);
    let ur_shape = e.array("UrShape", 3, &[n]);
    let constraints = e.array("Constraints", 3, &[n]);
    let (w_fit_sqrt, w_reg_sqrt) = (e.param("w_fitSqrt"), e.param("w_regSqrt"));
    let g = e.graph("G", &[("v0", &[n]), ("v1", &[n])]);
    let (v0, v1) = (g.vertex("v0"), g.vertex("v1"));

    let dragged = constraints.at_channel([0], 0).greater_eq(-999999.9);
    e.energy(select(dragged, w_fit_sqrt * (offset.at([0]) - constraints.at([0])), 0.0));
    let edge = offset.at(&v0) - offset.at(&v1);
    let rest = ur_shape.at(&v0) - ur_shape.at(&v1);
    e.energy(w_reg_sqrt * (edge - rotate_3d(angle.at(&v0), rest)));
    e.finish()
}

/// As-rigid-as-possible deformation of a lattice around a shape.
pub fn volumetric_mesh_deformation() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H"), e.dim("D")];
    let offset = e.unknown("Offset", 3, &dims);
    let angle = e.unknown("Angle", 3, &dims);
    let ur_shape = e.array("UrShape", 3, &dims);
    let constraints = e.array("Constraints", 3, &dims);
    let (w_fit_sqrt, w_reg_sqrt) = (e.param("w_fitSqrt"), e.param("w_regSqrt"));
    let here = [0, 0, 0];

    let dragged = constraints.at_channel(here, 0).greater_eq(-999999.9);
    e.energy(select(dragged, w_fit_sqrt * (offset.at(here) - constraints.at(here)), 0.0));
    for n in [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]] {
        let edge = offset.at(here) - offset.at(n);
        let rest = ur_shape.at(here) - ur_shape.at(n);
        let kept = &w_reg_sqrt * (edge - rotate_3d(angle.at(here), rest));
        e.energy(select(e.in_bounds(n), kept, 0.0));
    }
    e.finish()
}

/// Seamless cloning: inside the mask the picture takes the gradients of T, outside it stays as it is.
pub fn poisson_image_editing() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 4, &dims);
    let t = e.array("T", 4, &dims);
    let m = e.array("M", 1, &dims);

    e.exclude(!m.at([0, 0]).equals(0.0));
    for n in NEIGHBOURS {
        let difference = (x.at([0, 0]) - x.at(n)) - (t.at([0, 0]) - t.at(n));
        e.energy(select(e.in_bounds(n), difference, 0.0));
    }
    e.finish()
}
