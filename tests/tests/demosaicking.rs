//! Learned demosaicking: the energy that its filters are trained by is certified and goes down; trained filters do better than AHD.

use sumsq::codegen::runtime::Pool;
use sumsq::{CompileOptions, Precision, SolveOptions};
use sumsq_examples::demosaicking::{Demosaicker, Scene, Set, energy, estimates, moire};
use sumsq_examples::pipelines::{Filters, Picture};

/// A piece of a photograph by Clemens Engelhardt that no filter was trained on.
fn field() -> Scene {
    let path = sumsq_tests::workspace_root().join("data/pipelines/seeding.jpg");
    Scene::of(&Picture::read(&path).unwrap()).part([500, 300], [256, 192])
}

#[test]
fn trained_filters_do_better_than_ahd() {
    let pool = Pool::new(2);
    let [bilinear, ahd] = ["demosaic_bilinear", "demosaic_ahd"].map(|name| Demosaicker::new(name).unwrap());
    let learned = [2, 9, 15].map(|count| Demosaicker::with(Filters::trained(count)).unwrap());
    for (what, scene, most) in [("field", field(), 0.1), ("patterns", moire(7, 192), 0.2)] {
        let psnr = |way: &Demosaicker| scene.psnr(&way.run(&pool, &scene.mosaic()).unwrap());
        let (bilinear, ahd) = (psnr(&bilinear), psnr(&ahd));
        assert!(ahd > bilinear + 1.0, "{what}: {bilinear} {ahd}");
        let learned = learned.each_ref().map(psnr);
        assert!(learned.iter().all(|p| *p > ahd + most), "{what}: {learned:?}, by AHD {ahd}");
    }
}

#[test]
fn training_is_certified_and_lowers_the_error() {
    let pieces: Vec<(Scene, f64)> = [Set::pieces(&moire(20, 64)), Set::pieces(&field())]
        .into_iter()
        .flatten()
        .take(4)
        .map(|s| (s, 1e-3))
        .collect();
    let set = Set::of(&pieces).unwrap();
    let start = Filters::directions();
    let energy = energy(2).unwrap();
    let buffers = start.buffers().unwrap();
    let c = energy.check(&set.with(&buffers), &[], None).unwrap();
    assert!(c.gradient.iter().all(|(_, off)| *off < 1e-6) && c.product < 1e-6, "{c:?}");
    assert!(c.asymmetry < 1e-10 && c.least_diagonal >= 0.0, "{c:?}");

    let sizes = estimates(2, [set.width, set.height]);
    let sizes: Vec<(&str, &[i32])> = sizes.iter().map(|(n, s)| (*n, s.as_slice())).collect();
    let options = CompileOptions { precision: Precision::F32, threads: Some(2), ..CompileOptions::default() };
    let solver = energy.compile(&options, &sizes).unwrap();
    let options =
        SolveOptions { iterations: Some(4), linear_iterations: Some(20), ..SolveOptions::default() };
    let report = solver.solve(&set.with(&buffers), &mut [], &options).unwrap();
    assert!(set.psnr(report.energy_final) > set.psnr(report.energy_initial) + 0.3, "{report}");
    let trained = Filters::of(2, &buffers);
    assert!(trained.values[0] != start.values[0] && trained.values[4] != start.values[4]);
}
