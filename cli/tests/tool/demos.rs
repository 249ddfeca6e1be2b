//! All ten demos, run as a user runs them: E falls by the factor stated here, every file decodes, and the figures against ground truth
//! are those of the README.

use crate::bench::Bench;
use serde_json::Value;
use std::path::Path;
use sumsq_examples::io::{Mesh, picture};

/// Names of the demo that a test of this module is about, the factor by which E falls at least, and shares to which each
/// figure against ground truth falls at least, in the order in which they are printed.
struct Stated {
    name: &'static str,
    factor: f64,
    /// Solves between whose start and end E falls; of several with energies of their own, the one at full size.
    passes: [usize; 2],
    shares: &'static [f64],
}

/// A demo of a single solve without ground truth.
fn solved(name: &'static str, factor: f64) -> Stated {
    Stated { name, factor, passes: [0, 0], shares: &[] }
}

/// Runs the demo in a folder of its own and holds it to what is stated.
fn play(stated: &Stated) {
    let bench = Bench::new("");
    bench.sumsq(&["demo", stated.name, "--out", "out"]).succeeds();
    let mut kinds = std::collections::BTreeSet::new();
    for file in std::fs::read_dir(bench.path("out")).unwrap() {
        let path = file.unwrap().path();
        decodes(&path);
        kinds.insert(path.extension().unwrap().to_string_lossy().into_owned());
    }
    assert!(kinds.contains("png") && kinds.contains("json"), "{kinds:?}");

    let report = bench.json(&format!("out/{}.json", stated.name));
    let [first, last] = stated.passes.map(|pass| &report["passes"][pass]);
    let (before, after) = (number(&first["energy_initial"]), number(&last["energy_final"]));
    assert!(stated.factor * after <= before, "E: {before} -> {after}, not by {}", stated.factor);

    let measures: Vec<[f64; 2]> = report["measures"].as_array().unwrap().iter().map(figures).collect();
    assert_eq!(measures.len(), stated.shares.len());
    for ([before, after], share) in measures.iter().zip(stated.shares) {
        assert!(*after <= share * before, "{before} -> {after}, not to {share}");
    }
    let page = of_the_readme(stated.name);
    assert_eq!(page.is_some(), !measures.is_empty(), "the README's figures: {page:?}");
    if let Some(page) = page {
        let close =
            |came: &[f64; 2]| came.iter().zip(page).all(|(came, page)| (came / page - 1.0).abs() <= 0.2);
        assert!(measures.iter().any(close), "{measures:?}; the README says {page:?}");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn figures(measure: &Value) -> [f64; 2] {
    ["before", "after"].map(|key| number(&measure[key]))
}

/// Reads a picture, a mesh or a report.
fn decodes(path: &Path) {
    match path.extension().and_then(|e| e.to_str()) {
        Some("png") => {
            let picture = picture::read(path).unwrap().to_rgb8();
            let first = picture.get_pixel(0, 0);
            assert!(picture.pixels().any(|p| p != first), "{}: all of one colour", path.display());
        }
        Some("ply") => {
            let mesh = Mesh::read(path).unwrap();
            assert!(!mesh.triangles.is_empty(), "{}", path.display());
            let finite = mesh.positions.iter().all(|p| p.iter().all(|c| c.is_finite()));
            assert!(finite, "{}: a vertex is nowhere", path.display());
        }
        Some("json") => {
            let _: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        }
        _ => panic!("{}: a file of which kind?", path.display()),
    }
}

/// The two figures, before and after, in the demo's row of the README; none if it has no ground truth.
fn of_the_readme(name: &str) -> Option<[f64; 2]> {
    let page = include_str!("../../../README.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    let truth = row.unwrap_or_else(|| panic!("no row of {name}")).rsplit('|').nth(1).unwrap();
    let numbers: Vec<f64> = truth.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().ok()
}

#[test]
fn image_warping() {
    play(&solved("image_warping", 1e6));
}

#[test]
fn arap_mesh_deformation() {
    play(&solved("arap_mesh_deformation", 1e5));
}

#[test]
fn poisson_image_editing() {
    play(&solved("poisson_image_editing", 40.0));
}

#[test]
fn embedded_deformation() {
    play(&solved("embedded_deformation", 5000.0));
}

#[test]
fn volumetric_mesh_deformation() {
    play(&solved("volumetric_mesh_deformation", 1500.0));
}

#[test]
fn intrinsic_image_decomposition() {
    play(&solved("intrinsic_image_decomposition", 1.4));
}

#[test]
fn cotangent_mesh_smoothing() {
    play(&Stated { shares: &[0.8, 0.6], ..solved("cotangent_mesh_smoothing", 1.2) });
}

#[test]
fn shape_from_shading() {
    play(&Stated { shares: &[0.95, 0.5], ..solved("shape_from_shading", 4.0) });
}

/// Each level has its own energy: from a coarse one E rises to the next. The last but one starts the level of full size.
#[test]
fn optical_flow() {
    play(&Stated { passes: [6, 6], shares: &[0.1], ..solved("optical_flow", 1.2) });
}

#[test]
fn robust_nonrigid_alignment() {
    play(&Stated { passes: [0, 13], shares: &[0.3, 0.2], ..solved("robust_nonrigid_alignment", 40.0) });
}
