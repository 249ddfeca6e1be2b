//! Energies over pictures and depth maps that need computed arrays, sampled images or constant views.

use super::NEIGHBOURS;
use sumsq_energy::model::ElementType;
use sumsq_energy::rust::{EnergyBuilder, select, vector};
use sumsq_energy::{Energy, EnergyError};

/// Shape from shading: a depth map that, lit by 9 spherical harmonics, looks like the photograph.
pub fn shape_from_shading() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let depth = e.unknown("X", 1, &dims);
    let d_i = e.array("D_i", 1, &dims);
    let im = e.array("Im", 1, &dims);
    let mask = |name| e.array_of(name, ElementType::Uint8, 1, &dims);
    let (mask_right, mask_below) = (mask("edgeMaskR"), mask("edgeMaskC"));
    let [w_p, w_s, w_g] = ["w_p", "w_s", "w_g"].map(|name| e.param(name));
    let [f_x, f_y, u_x, u_y] = ["f_x", "f_y", "u_x", "u_y"].map(|name| e.param(name));
    let l: Vec<_> = (1..=9).map(|k| e.param(&format!("L_{k}"))).collect();

    let neighbours = [[-1, 0], [0, -1], [1, 0], [0, 1]];
    let inside = e.in_bounds_expanded([0, 0], 1);
    let measured = |at: [i32; 2]| d_i.at(at).greater(0.0);
    e.exclude(!measured([0, 0]));

    let point = |at: [i32; 2]| {
        let [x, y] = [0, 1].map(|axis| e.index(axis) + f64::from(at[usize::from(axis)]));
        let d = depth.at(at);
        vector([(x - &u_x) / &f_x * &d, (y - &u_y) / &f_y * &d, d])
    };

    let (d, left, top) = (depth.at([0, 0]), depth.at([-1, 0]), depth.at([0, -1]));
    let nx = &top * (&d - &left) / &f_y;
    let ny = &left * (&d - &top) / &f_x;
    let nz =
        &nx * (&u_x - e.index(0)) / &f_x + &ny * (&u_y - e.index(1)) / &f_y - &left * &top / (&f_x * &f_y);
    let squared = &nx * &nx + &ny * &ny + &nz * &nz;
    let scale = select(squared.greater(0.0), 1.0 / squared.sqrt(), 1.0);
    let [nx, ny, nz] = [nx, ny, nz].map(|n| &scale * n);
    let b = &l[0]
        + &l[1] * &ny
        + &l[2] * &nz
        + &l[3] * &nx
        + &l[4] * &nx * &ny
        + &l[5] * &ny * &nz
        + &l[6] * (2.0 * &nz * &nz - &nx * &nx - &ny * &ny)
        + &l[7] * &nz * &nx
        + &l[8] * (&nx * &nx - &ny * &ny);
    let intensity = 0.5 * im.at([0, 0]) + 0.25 * (im.at([-1, 0]) + im.at([0, -1]));
    let shaded = &inside & measured([-1, 0]) & measured([0, 0]) & measured([0, -1]);
    let b_i = e.computed("B_I", &dims, select(shaded, b - intensity, 0.0));

    let continuous = neighbours.into_iter().fold(&inside & measured([0, 0]), |all, n| {
        all & measured(n) & (depth.at([0, 0]) - depth.at(n)).abs().less(0.01)
    });
    let valid = e.computed("valid", &dims, continuous);

    e.energy(select(measured([0, 0]), w_p.sqrt() * (depth.at([0, 0]) - d_i.at([0, 0])), 0.0));
    for (to, mask) in [([1, 0], mask_right), ([0, 1], mask_below)] {
        e.energy(select(&inside, w_g.sqrt() * (b_i.at([0, 0]) - b_i.at(to)) * mask.at([0, 0]), 0.0));
    }
    let bend = neighbours.into_iter().fold(4.0 * point([0, 0]), |bend, n| bend - point(n));
    e.energy(select(valid.at([0, 0]), w_s.sqrt() * bend, 0.0));
    e.finish()
}

/// Optical flow of Horn and Schunck: where every pixel of I has gone in I_hat.
pub fn optical_flow() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 2, &dims);
    let [i, i_hat, dx, dy] = ["I", "I_hat", "I_hat_dx", "I_hat_dy"].map(|name| e.array(name, 1, &dims));
    let (w_fit, w_reg) = (e.param("w_fit"), e.param("w_reg"));

    let s = e.sampled_with(&i_hat, &[&dx, &dy]);
    let moved = [0, 1].map(|axis| e.index(axis) + x.at_channel([0, 0], axis));
    e.energy(w_fit * (i.at([0, 0]) - s.at(moved)));
    for n in NEIGHBOURS {
        e.energy(select(e.in_bounds(n), &w_reg * (x.at([0, 0]) - x.at(n)), 0.0));
    }
    e.finish()
}

/// Intrinsic images: the logarithm of a photograph as reflectance with sparse gradients plus smooth shading.
pub fn intrinsic_image_decomposition() -> Result<Energy, EnergyError> {
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let r = e.unknown("R", 3, &dims);
    let s = e.unknown("S", 1, &dims);
    let r_const = e.view("R_const", &r);
    let i = e.array("I", 3, &dims);
    let weights = ["w_fitSqrt", "w_reflectanceSqrt", "w_shadingSqrt", "w_greySqrt"];
    let [w_fit, w_reflectance, w_shading, w_grey] = weights.map(|name| e.param(name));
    let p = e.param("p");

    let here = [0, 0];
    e.energy(w_fit * (r.at(here) + s.at(here) - i.at(here)));
    for n in [[1, 0], [0, 1]] {
        let sparse = e.l_p(r.at(here) - r.at(n), r_const.at(here) - r_const.at(n), &p, &dims);
        e.energy(&w_reflectance * sparse);
        e.energy(&w_shading * (s.at(here) - s.at(n)));
    }
    e.energy(w_grey * (s.at(here) - i.at(here).sum() / 3.0));
    e.finish()
}
