//! Values that products keep, and schedules that are given.

use super::*;
use sumsq::pipeline_energy::{DerivedPipeline, PipelineSolver};

fn compiled(energy: &PipelineEnergy) -> Result<PipelineSolver, PipelineEnergyError> {
    let size: &[i32] = &[W as i32, H as i32];
    energy.compile(&options(Precision::F64, 2), &[("image", size), ("wanted", size), ("taps", &[3, 3])])
}

/// `filter` once more, with a dear Func without updates between the sum and the residual.
fn bent() -> PipelineEnergy {
    let mut e = Pipeline::new("bent");
    let (x, y) = (Var::new("x"), Var::new("y"));
    let image = e.input(Input::new("image", &[ScalarType::F64], 2));
    let wanted = e.input(Input::new("wanted", &[ScalarType::F64], 2));
    let taps = e.input(Input::new("taps", &[ScalarType::F64], 2));
    let near = e.func(boundary::repeat_edge("near", &image, &image.domain()));
    let r = RDom::new([("rx", 0, 3), ("ry", 0, 3)]);
    let tap = near.of((x + r.var(0) - 1, y + r.var(1) - 1)) * taps.of((r.var(0), r.var(1)));
    let sum = e.sum("blurred", &r, tap);
    let blurred = e.define("near_blurred", [x, y], sum);
    let at = |dx: i32, dy: i32| blurred.of((x + dx, y + dy));
    let waves = (0..6).map(|k| (at(k % 3 - 1, k / 3) * f64::from(k)).sin()).reduce(|a, b| a + b).unwrap();
    let wave = e.define("wave", [x, y], waves);
    e.define("apart", [x, y], wave.of((x, y)) * blurred.of((x, y)) - wanted.of((x, y)));
    let domain = [(0.into(), image.extent(0)), (0.into(), image.extent(1))];
    PipelineEnergy::new(e).unknown("taps").unknown("image").residual_over("apart", &domain, Loss::Squares)
}

fn steps(energy: &PipelineEnergy) -> (Report, Vec<f64>) {
    let (picture, wanted) = filtered();
    let (image, wanted) = (image(&picture, ScalarType::F64), image(&wanted, ScalarType::F64));
    let taps = Buffer::new(BufferSpec::new(ScalarType::F64, &[3, 3])).unwrap();
    taps.copy_from(&[0.1f64; 9]).unwrap();
    let solver = compiled(energy).unwrap_or_else(|e| panic!("{e}"));
    let buffers = [("image", &image), ("wanted", &wanted), ("taps", &taps)];
    let options = SolveOptions { iterations: Some(4), ..SolveOptions::default() };
    let report = solver.solve(&buffers, &mut [], &options).unwrap_or_else(|e| panic!("{e}"));
    (report, image.to_vec())
}

#[test]
fn what_does_not_depend_on_the_direction_is_computed_once() {
    let kept =
        |e: &PipelineEnergy| -> Vec<String> { compiled(e).unwrap().kept().map(str::to_string).collect() };
    let has = |e: &PipelineEnergy, of: DerivedPipeline, name: &str| {
        compiled(e).unwrap().derived(of).is_some_and(|(p, _)| p.funcs.contains_key(name))
    };
    // What has updates is kept, and what is dear; what is cheap is not, unless somebody asks for it.
    assert_eq!(kept(&bent()), ["blurred", "wave"]);
    assert!(has(&bent(), DerivedPipeline::Kept, "wave") && !has(&bent(), DerivedPipeline::Product, "wave"));
    assert_eq!(kept(&bent().recompute("wave")), ["blurred"]);
    assert!(has(&bent().recompute("wave"), DerivedPipeline::Product, "wave"));
    assert_eq!(kept(&bent().keep("near")), ["near", "blurred", "wave"]);
    let nothing = denoising(Loss::Squares).compile(&options(Precision::F64, 1), &[]).unwrap();
    assert_eq!((nothing.kept().count(), nothing.derived(DerivedPipeline::Kept)), (0, None));

    let (expected, x) = steps(&bent());
    let bytes: Vec<(&str, u64)> = expected.kept.iter().map(|k| (k.func.as_str(), k.bytes)).collect();
    // The waves read neighbours of the sums; rows are padded.
    let [("blurred", blurred), ("wave", wave)] = bytes[..] else { panic!("{bytes:?}") };
    assert!(wave >= 8 * (W * H) as u64 && blurred > wave && blurred < 2 * wave, "{bytes:?}");
    for other in [bent().recompute("wave"), bent().keep("near").keep("near_blurred")] {
        let (report, y) = steps(&other);
        assert_eq!(report.iterations.len(), expected.iterations.len());
        for (a, b) in report.iterations.iter().zip(&expected.iterations) {
            assert_close("E", a.energy, b.energy, 1e-9);
        }
        assert!(x.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-8));
    }
}

#[test]
fn memory_decides_what_is_kept() {
    let size: &[i32] = &[2000, 2000];
    let sizes = [("image", size), ("wanted", size), ("taps", &[3, 3]), ("apart", size)];
    let kept = |bytes| {
        let max_memory = Some(sumsq::MemoryLimit::Bytes(bytes));
        let options = CompileOptions { max_memory, ..options(Precision::F64, 1) };
        let solver = bent().compile(&options, &sizes).unwrap();
        solver.kept().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(kept(130_000_000), ["blurred", "wave"]);
    assert_eq!(kept(100_000_000), ["blurred"]);
}

#[test]
fn schedules_can_be_given() {
    let expected = steps(&bent());
    let solver = compiled(&bent()).unwrap();
    use DerivedPipeline::{Diagonal, Energy, Gradient, Kept, Product};
    // Each as it is printed: the same code.
    let mut energy = bent();
    for of in [Energy, Gradient, Diagonal, Kept, Product] {
        energy = energy.schedule(of, solver.derived(of).unwrap().1.to_string());
    }
    let again = steps(&energy);
    assert_eq!((again.0.energy_final, &again.1), (expected.0.energy_final, &expected.1));
    // Kept values under a schedule of one's own: other code, the same numbers.
    let own = "wave: vectorize(x, 8) parallel(y)\nblurred: vectorize(x, 4)";
    let other = bent().schedule(Kept, own);
    let given = compiled(&other).unwrap();
    assert_eq!(
        given.derived(Kept).unwrap().1.to_string(),
        sumsq::codegen::Schedule::parse(own).unwrap().to_string()
    );
    let (report, y) = steps(&other);
    assert_close("E", report.energy_final, expected.0.energy_final, 1e-9);
    assert!(expected.1.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-8));
}

#[test]
fn wrong_names_and_schedules_are_refused() {
    let error = |e: PipelineEnergy| compiled(&e).err().unwrap().to_string();
    assert_eq!(error(bent().keep("sharp")), "the pipeline has no Func `sharp` to keep or to recompute");
    assert_eq!(
        error(bent().recompute("blurred")),
        "`blurred` has updates and must be stored: it cannot be recomputed where it is read"
    );
    let typo = error(bent().schedule(DerivedPipeline::Product, "wave: paralel(y)"));
    assert!(typo.contains("paralel"), "{typo}");
}
