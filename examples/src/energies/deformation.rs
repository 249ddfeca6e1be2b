//! Energies over meshes.

use sumsq_energy::rust::{EnergyBuilder, rotate_3d, select, vector};
use sumsq_energy::{Energy, EnergyError};

/// Smoothing of a mesh with cotangent weights that follow the mesh.
pub fn cotangent_mesh_smoothing() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let x = e.unknown("X", 3, &[n]);
    let a = e.array("A", 3, &[n]);
    let (w_fit_sqrt, w_reg_sqrt) = (e.param("w_fitSqrt"), e.param("w_regSqrt"));
    let g = e.graph("G", &[("v0", &[n]), ("v1", &[n]), ("v2", &[n]), ("v3", &[n])]);
    let at = |vertex: &str| x.at(&g.vertex(vertex));

    let cotangent = |apex: &str| {
        let (a, b) = (at("v0") - at(apex), at("v1") - at(apex));
        let along = a.dot(&b);
        let across = a.dot(&a) * b.dot(&b) - &along * &along;
        along / select(across.greater(1e-20), &across, 1e-20).sqrt()
    };
    e.energy(w_fit_sqrt * (x.at([0]) - a.at([0])));
    let weight = 0.5 * (cotangent("v2") + cotangent("v3"));
    let weight = select(weight.greater(0.01), &weight, 0.01);
    e.energy(w_reg_sqrt * (weight.sqrt() * (at("v0") - at("v1"))));
    e.finish()
}

/// Embedded deformation: an affine map per node of a graph, close to a rotation.
pub fn embedded_deformation() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let offset = e.unknown("Offset", 3, &[n]);
    let matrix = e.unknown("RotMatrix", 9, &[n]);
    let ur_shape = e.array("UrShape", 3, &[n]);
    let constraints = e.array("Constraints", 3, &[n]);
    let (w_fit_sqrt, w_reg_sqrt, w_rot_sqrt) =
        (e.param("w_fitSqrt"), e.param("w_regSqrt"), e.param("w_rotSqrt"));
    let g = e.graph("G", &[("v0", &[n]), ("v1", &[n])]);
    let (v0, v1) = (g.vertex("v0"), g.vertex("v1"));

    let dragged = constraints.at_channel([0], 0).greater_eq(-999999.9);
    e.energy(select(dragged, w_fit_sqrt * (offset.at([0]) - constraints.at([0])), 0.0));
    let edge = offset.at(&v1) - offset.at(&v0);
    let rest = ur_shape.at(&v1) - ur_shape.at(&v0);
    e.energy(w_reg_sqrt * (edge - matrix.at(&v0).matrix3_mul(rest)));
    let r = matrix.at([0]);
    let [a, b, c] = [0, 1, 2].map(|j| vector([0, 3, 6].map(|i| r.channel(i + j))));
    e.energy(&w_rot_sqrt * vector([a.dot(&b), a.dot(&c), b.dot(&c)]));
    e.energy(w_rot_sqrt * vector([&a, &b, &c].map(|column| column.dot(column) - 1.0)));
    e.finish()
}

/// Non-rigid alignment of a mesh to a scan, with an unknown weight per vertex that says how far the scan is believed.
pub fn robust_nonrigid_alignment() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let n = e.dim("N");
    let offset = e.unknown("Offset", 3, &[n]);
    let angle = e.unknown("Angle", 3, &[n]);
    let weight = e.unknown("RobustWeights", 1, &[n]);
    let ur_shape = e.array("UrShape", 3, &[n]);
    let constraints = e.array("Constraints", 3, &[n]);
    let normals = e.array("ConstraintNormals", 3, &[n]);
    let (w_fit_sqrt, w_conf_sqrt, w_reg_sqrt) =
        (e.param("w_fitSqrt"), e.param("w_confSqrt"), e.param("w_regSqrt"));
    let g = e.graph("G", &[("v0", &[n]), ("v1", &[n])]);
    let (v0, v1) = (g.vertex("v0"), g.vertex("v1"));

    let matched = constraints.at_channel([0], 0).greater_eq(-999999.9);
    let distance = normals.at([0]).dot(offset.at([0]) - constraints.at([0]));
    e.energy(select(&matched, w_fit_sqrt * (weight.at([0]) * distance), 0.0));
    e.energy(select(&matched, w_conf_sqrt * (1.0 - weight.at([0]).pow(2.0)), 0.0));
    let edge = offset.at(&v0) - offset.at(&v1);
    let rest = ur_shape.at(&v0) - ur_shape.at(&v1);
    e.energy(w_reg_sqrt * (edge - rotate_3d(angle.at(&v0), rest)));
    e.finish()
}
