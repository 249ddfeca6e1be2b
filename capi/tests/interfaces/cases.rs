//! Exact Gauss-Newton steps through the published interface against the expected figures of the reference cases.

use crate::support::*;
use std::ffi::c_void;
use sumsq::energy::model::{ElementType, Energy};
use sumsq::{ArrayData, NamedArray};
use sumsq_tests::{Case, assert_close, energy_of};

/// The numbers as a C program would hold them, in the order of their positions.
struct Table {
    floats: Vec<Memory<f32>>,
    doubles: Vec<Memory<f64>>,
    ints: Vec<Memory<i32>>,
    pointers: Vec<*mut c_void>,
}

impl Table {
    /// `names` in the order of their positions; those declared float are floats, the other numbers doubles; a graph's own name
    /// stands for its edge count.
    fn new(energy: &Energy, arrays: &[NamedArray], names: &[&str]) -> Table {
        let mut t = Table { floats: vec![], doubles: vec![], ints: vec![], pointers: vec![] };
        for name in names {
            let graph = energy.graphs.iter().any(|g| g.name == *name);
            let key = if graph { format!("{name}.") } else { name.to_string() };
            let array = arrays.iter().find(|a| a.name == key || (graph && a.name.starts_with(&key))).unwrap();
            let float = energy.params.iter().any(|p| p.name == *name && p.element == ElementType::Float);
            match &array.data {
                _ if graph => t.int(&[array.data.len() as i64]),
                ArrayData::Int(v, _) => t.int(v),
                ArrayData::F32(v) if float => {
                    t.floats.push(Memory::new(v));
                    t.pointers.push(t.floats[t.floats.len() - 1].at());
                }
                ArrayData::F32(v) => {
                    t.doubles.push(Memory::new(&v.iter().map(|&v| v.into()).collect::<Vec<f64>>()));
                    t.pointers.push(t.doubles[t.doubles.len() - 1].at());
                }
                _ => panic!("{name}: a type that no case has"),
            }
        }
        t
    }

    fn int(&mut self, values: &[i64]) {
        self.ints.push(Memory::new(&values.iter().map(|&v| v as i32).collect::<Vec<i32>>()));
        self.pointers.push(self.ints[self.ints.len() - 1].at());
    }
}

fn trace(name: &str, dims: &[&str], names: &[&str]) {
    let case = Case::open(name);
    let extents: Vec<u32> = dims
        .iter()
        .map(|dim| match case.arrays.iter().find(|a| a.name == *dim).map(|a| &a.data) {
            Some(ArrayData::Int(v, _)) => v[0] as u32,
            _ => panic!("{name} has no extent of {dim}"),
        })
        .collect();
    let mut table = Table::new(&case.energy, &case.arrays, names);
    let file = format!("{}.t", energy_of(name));
    let opt = Opt::new(&example(&file), "gaussNewtonGPU", true, &extents);
    let expected = case.numbers("gn_energies");
    // Enough for an exact step in every case; Gauss-Newton takes them all.
    opt.int("lIterations", 2500);
    opt.int("nIterations", expected.len() as i32 - 1);
    opt.init(&mut table.pointers);
    assert_close("energy at the start", 2.0 * opt.cost(), expected[0], 1e-9);
    for (i, e) in expected.iter().enumerate().skip(1) {
        assert_eq!(opt.step(&mut table.pointers), 1, "{name}, step {i}: {}", last_error());
        assert_close(&format!("{name}: energy after step {i}"), 2.0 * opt.cost(), *e, 1e-6);
    }
    assert_eq!(opt.step(&mut table.pointers), 0);
}

#[test]
fn laplacian() {
    trace("laplacian_small", &["W", "H"], &["X", "A"]);
}

#[test]
fn image_warping() {
    let names = ["Offset", "Angle", "UrShape", "Constraints", "Mask", "w_fitSqrt", "w_regSqrt"];
    trace("image_warping_small", &["W", "H"], &names);
}

#[test]
fn curve_fitting() {
    trace("curveFitting_small", &["N", "U"], &["funcParams", "data", "G", "G.d", "G.p"]);
}

#[test]
fn arap_mesh_deformation() {
    let names = ["Offset", "Angle", "UrShape", "Constraints", "w_fitSqrt", "w_regSqrt", "G", "G.v0", "G.v1"];
    trace("arap_hand", &["N"], &names);
}
