//! The energies of the demos mean the same as energy files and in the Rust front end.

// By path: the examples crate would pull in the whole engine.
#[path = "../../examples/src/energies/mod.rs"]
mod energies;

use sumsq_energy::rust::EnergyBuilder;
use sumsq_energy::{Energy, EnergyError};

/// Everything an energy says, but for source lines and declared element types.
fn describe(e: &Energy) -> String {
    let mut text = String::new();
    let mut line = |l: String| text.push_str(&(l + "\n"));
    for d in &e.dims {
        line(format!("dim {} at {}", d.name, d.position));
    }
    for (kind, fields) in [("unknown", &e.unknowns), ("array", &e.arrays)] {
        for f in fields {
            let space = e.space_name(f.space);
            line(format!("{kind} {} {} {space} at {}", f.name, f.channels, f.position));
        }
    }
    for p in &e.params {
        line(format!("param {} {} at {}", p.name, p.channels, p.position));
    }
    for g in &e.graphs {
        line(format!("graph {} at {}", g.name, g.position));
        for v in &g.vertices {
            line(format!("  {} {} at {}", v.name, e.space_name(v.space), v.position));
        }
        line(format!("  {:?}", g.neighbours));
    }
    for c in &e.computed {
        let values: Vec<_> = c.values.iter().map(|&v| e.dag.display_with(v, e).to_string()).collect();
        line(format!("computed {} {} {values:?}", c.name, e.space_name(c.space)));
    }
    for (space, x) in &e.excludes {
        line(format!("exclude {} {}", e.space_name(*space), e.dag.display_with(*x, e)));
    }
    for r in &e.residuals {
        let value = e.dag.display_with(r.value, e);
        let group = &e.groups[r.group.index()];
        line(format!("{group} {:?} {:?} {:?} {value}", r.domain, r.guard, r.unknown_reads));
    }
    line(format!("{:?} {:?}", e.use_preconditioner, e.warnings));
    text
}

fn compare(name: &str, dsl: Result<Energy, EnergyError>, residuals: usize) {
    let path = format!("{}/../examples/energies/{name}.t", env!("CARGO_MANIFEST_DIR"));
    let file = Energy::from_file(path).unwrap_or_else(|e| panic!("{:?}", miette::Report::new(e)));
    let dsl = dsl.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(file.residuals.len(), residuals);
    assert_eq!(describe(&file), describe(&dsl));
}

#[test]
fn laplacian() {
    compare("laplacian", energies::laplacian(), 3);
}

#[test]
fn curve_fitting() {
    compare("curveFitting", energies::curve_fitting(), 1);
}

#[test]
fn image_warping() {
    compare("image_warping", energies::image_warping(), 4 * 2 + 2);
}

#[test]
fn arap_mesh_deformation() {
    compare("arap_mesh_deformation", energies::arap_mesh_deformation(), 3 + 3);
}

#[test]
fn volumetric_mesh_deformation() {
    compare("volumetric_mesh_deformation", energies::volumetric_mesh_deformation(), 6 * 3 + 3);
}

#[test]
fn poisson_image_editing() {
    compare("poisson_image_editing", energies::poisson_image_editing(), 4 * 4);
}

#[test]
fn cotangent_mesh_smoothing() {
    compare("cotangent_mesh_smoothing", energies::cotangent_mesh_smoothing(), 3 + 3);
}

#[test]
fn embedded_deformation() {
    compare("embedded_deformation", energies::embedded_deformation(), 3 + 3 + 6);
}

#[test]
fn robust_nonrigid_alignment() {
    compare("robust_nonrigid_alignment", energies::robust_nonrigid_alignment(), 1 + 1 + 3);
}

#[test]
fn shape_from_shading() {
    compare("shape_from_shading", energies::shape_from_shading(), 1 + 2 + 3);
}

#[test]
fn optical_flow() {
    compare("optical_flow", energies::optical_flow(), 1 + 4 * 2);
}

#[test]
fn intrinsic_image_decomposition() {
    compare("intrinsic_image_decomposition", energies::intrinsic_image_decomposition(), 3 + 2 * (3 + 1) + 1);
}

/// No demo reads around a vertex.
#[test]
fn computed_arrays_at_vertices() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local C = ComputedArray("C", {W,H}, X(1,0) * X(0,0))
        local D = ComputedArray("D", {W,H}, C(1,-1) - X(0,0))
        local G = Graph("G", 1, "a", {W,H}, 2, "b", {W,H}, 3)
        Energy(D(G.a) - C(G.b))
    "#;
    let file = Energy::from_text("e.t", text).unwrap();
    let slots: Vec<String> = file.graphs[0].slots().map(|s| file.graphs[0].slot_name(s)).collect();
    assert_eq!(slots, ["G.a", "G.b", "G.a(1,-1)", "G.a(2,-1)", "G.b(1,0)"]);
    let e = EnergyBuilder::new();
    let dims = [e.dim("W"), e.dim("H")];
    let x = e.unknown("X", 1, &dims);
    let c = e.computed("C", &dims, x.at([1, 0]) * x.at([0, 0]));
    let d = e.computed("D", &dims, c.at([1, -1]) - x.at([0, 0]));
    let g = e.graph("G", &[("a", &dims), ("b", &dims)]);
    e.energy(d.at(&g.vertex("a")) - c.at(&g.vertex("b")));
    assert_eq!(describe(&file), describe(&e.finish().unwrap()));
}
