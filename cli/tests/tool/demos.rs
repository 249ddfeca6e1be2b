//! All demos, run as a user runs them: E falls by the factor stated here, every file decodes, and the figures against ground truth
//! are those of the README, or of the page that it names.

use crate::bench::Bench;
use serde_json::Value;
use std::path::Path;
use sumsq_examples::demos::ALL;
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

/// Share by which a figure may be off the one that is written down.
const CLOSE: f64 = 0.2;

/// Runs the demo in a folder of its own, holds it to what is stated and returns its figures, before and after.
fn play(stated: &Stated) -> Vec<[f64; 2]> {
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
    // One that goes on from the end of the one before is of both together, too.
    let joined = measures.windows(2).filter(|w| w[0][1] == w[1][0]).map(|w| [w[0][0], w[1][1]]);
    let all: Vec<[f64; 2]> = measures.iter().copied().chain(joined).collect();
    for page in of_the_readme(stated.name) {
        let close = |came: &[f64; 2]| came.iter().zip(page).all(|(came, page)| is_close(*came, page));
        assert!(all.iter().any(close), "{measures:?}; the README says {page:?}");
    }
    measures
}

fn is_close(came: f64, page: f64) -> bool {
    (came / page - 1.0).abs() <= CLOSE
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

/// The figures, before and after, in the demo's row of the README; none if it has no ground truth.
fn of_the_readme(name: &str) -> Vec<[f64; 2]> {
    let page = include_str!("../../../README.md");
    let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    let truth = row.unwrap_or_else(|| panic!("no row of {name}")).rsplit('|').nth(1).unwrap();
    let numbers: Vec<f64> = truth.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
    let (pairs, rest) = numbers.as_chunks();
    assert!(rest.is_empty(), "{name}: before and after of each, not {numbers:?}");
    pairs.to_vec()
}

/// The demos with figures in the README; those of the others are elsewhere, or there is no truth to hold them against.
const OF_THE_README: [&str; 6] = [
    "shape_from_shading",
    "cotangent_mesh_smoothing",
    "optical_flow",
    "robust_nonrigid_alignment",
    "burst_demosaicking",
    "deconvolution",
];

#[test]
fn every_demo_is_held_to_its_figures() {
    for demo in ALL {
        let called = include_str!("demos.rs").matches(&format!("solved(\"{}\", ", demo.name)).count();
        assert_eq!(called, 1, "{} is played by no test", demo.name);
        let has = !of_the_readme(demo.name).is_empty();
        assert_eq!(has, OF_THE_README.contains(&demo.name), "{}", demo.name);
    }
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

/// The short lens has larger spots than the long one and fewer than half of those that descent ends at; seconds are not judged.
#[test]
fn lens_design() {
    let shares = &[0.5, f64::INFINITY, 0.61, 2.6, 1.001, 45.0];
    let measures = play(&Stated { shares, ..solved("lens_design", 1000.0) });
    let [[descended, straight], _, _, [long, short], ..] = measures[..] else { panic!("{measures:?}") };
    let came = [descended, straight, short, long];
    let page = of_the_lens();
    assert!(
        came.iter().zip(page).all(|(came, page)| is_close(*came, page)),
        "{came:?}; the page says {page:?}"
    );
}

/// Sizes of spots in the table of `docs/pipeline_energies.md`, row by row.
fn of_the_lens() -> [f64; 4] {
    let page = include_str!("../../../docs/pipeline_energies.md");
    let rows = page.lines().skip_while(|line| !line.ends_with("| spots, root mean square |"));
    let last = |row: &str| row.rsplit('|').nth(1).and_then(|cell| cell.trim().parse().ok());
    let sizes: Vec<f64> = rows.take_while(|row| row.starts_with('|')).filter_map(last).collect();
    sizes.try_into().unwrap_or_else(|came| panic!("not a size for each lens: {came:?}"))
}

/// Each stage of each channel has its own energy: E is that of the first.
#[test]
fn deconvolution() {
    play(&Stated { shares: &[0.75, 0.85], ..solved("deconvolution", 4.0) });
}

/// Small bursts are in `tests/tests/bursts.rs`; these figures are those of thirteen frames of a megapixel.
#[test]
#[ignore = "a minute and a half: four megapixels and twelve homographies"]
fn burst_demosaicking() {
    let shares = &[0.45, 0.55, 0.01, 1.8];
    play(&Stated { passes: [12, 12], shares, ..solved("burst_demosaicking", 2.0) });
}
