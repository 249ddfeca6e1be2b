//! Deconvolution: its derivative through the solves, had in two ways and by differences; trained numbers against those that they began as.

use sumsq::Precision;
use sumsq_examples::deconvolution::{Blurred, Deconvolver, Parameters, Plane, SIDE, Unrolled, motion};
use sumsq_examples::pipelines::Picture;
use sumsq_tests::Random;

/// A drawn picture: a disc, a bar and a slope.
fn drawn([width, height]: [usize; 2]) -> Plane {
    Plane::from_fn(width, height, |x, y| {
        let (u, v) = (x as f32 / width as f32, y as f32 / height as f32);
        let disc = if (u - 0.35).hypot(v - 0.4) < 0.22 { 0.5 } else { 0.0 };
        let bar = if (0.6..0.75).contains(&u) { 0.3 } else { 0.0 };
        0.15 + 0.2 * v + disc + bar
    })
}

/// Largest difference of two lists, relative to the largest number of the first.
fn apart(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = a.iter().map(|v| v.abs()).fold(0.0, f64::max);
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale
}

#[test]
fn derivatives_through_the_solves_agree() {
    let (side, size) = (5, [28, 24]);
    let of = Blurred::of(drawn(size), motion(3, side), 1);
    let deconvolver = Deconvolver::new(side, size, Precision::F64, Some(1), 1e-12).unwrap();
    let derivative = deconvolver.derivative().unwrap();
    let mut by = Parameters::published(2);
    by.first = [0.2, 0.15, 0.1];
    by.later[0].weights = [0.2, 0.3, 0.25];
    by.later[1].thresholds = [0.05, 0.04, 0.03];
    by.later.iter_mut().for_each(|s| s.smooth = [0.0713, 1.3]);
    // The image, the adjoint of its error, and the slopes by the logarithm of each number.
    let scaled = |slopes: &[f64], by: &Parameters| slopes.iter().zip(by.list()).map(|(d, v)| d * v).collect();
    let implicit = |by: &Parameters| {
        let solution = deconvolver.run(&of, by).unwrap();
        let (_, adjoint) = of.error(&solution.image());
        let slopes = derivative.slopes(&of, by, &solution, &adjoint).unwrap();
        (solution.image(), adjoint, scaled(&slopes.list(), by))
    };

    // Three stages, beside differences.
    let (_, _, slopes): (_, _, Vec<f64>) = implicit(&by);
    assert!(slopes.len() == 19 && slopes.iter().all(|d| *d != 0.0), "{slopes:?}");
    let error = |along: &[f64], h: f64| {
        let moved: Vec<f64> = by.list().iter().zip(along).map(|(v, d)| v * (h * d).exp()).collect();
        of.error(&deconvolver.run(&of, &Parameters::from_list(&moved).unwrap()).unwrap().image()).0
    };
    let mut random = Random::new(4);
    let scale = slopes.iter().map(|d| d.abs()).fold(0.0, f64::max);
    for _ in 0..3 {
        let along = random.numbers(slopes.len());
        let difference = (error(&along, 1e-6) - error(&along, -1e-6)) / 2e-6;
        let slope: f64 = slopes.iter().zip(&along).map(|(d, v)| d * v).sum();
        assert!((slope - difference).abs() < 1e-5 * scale, "{slope:e} {difference:e}, of {scale:e}");
    }

    // Two stages, beside the iterations of both run backwards.
    by.later.pop();
    let (image, adjoint, slopes) = implicit(&by);
    let mut unrolled = Unrolled::new(&of, 2, 120, None).unwrap();
    let other = unrolled.run(&by).unwrap();
    // Less than a third of what an iteration changes, the image among it, before each of 120.
    assert!(unrolled.held() < 2 * 120 * 8 * size[0] * size[1] * 8 / 3, "{}", unrolled.held());
    let backwards: Vec<f64> = scaled(&unrolled.slopes(&adjoint).unwrap(), &by);
    assert!(apart(&image, &other) < 1e-6, "{}", apart(&image, &other));
    assert!(apart(&slopes, &backwards) < 1e-4, "{slopes:?} {backwards:?}");
}

/// Pieces of a photograph by Stefan van der Walt, which no number was trained on.
#[test]
fn trained_numbers_do_better_than_published_ones() {
    let path = sumsq_tests::workspace_root().join("data/poisson_image_editing/chelsea.jpg");
    let size = [142, 110];
    let sharp = Plane::of(&Picture::read(&path).unwrap(), None).middle(size);
    let of = Blurred::of(sharp, motion(2, SIDE), 3);
    let kernel: f32 = of.kernel.values.iter().sum();
    assert!((kernel - 1.0).abs() < 1e-5, "{kernel}");
    let deconvolver = Deconvolver::new(SIDE, size, Precision::F32, Some(2), 1e-4).unwrap();
    let start: Vec<f64> = of.start().values.iter().map(|v| f64::from(*v)).collect();
    let ways = [Parameters::published(1), Parameters::published(3), Parameters::trained()];
    let [two, four, trained] =
        ways.map(|by| -10.0 * of.error(&deconvolver.run(&of, &by).unwrap().image()).0.log10());
    let blurred = -10.0 * of.error(&start).0.log10();
    assert!(two > blurred && trained > two + 0.8 && trained > four + 0.3, "{blurred} {two} {four} {trained}");
}

#[test]
fn numbers_are_read_as_they_are_written() {
    let by = Parameters::trained();
    assert_eq!(by.later.len(), 3);
    assert_eq!(Parameters::parse(&by.text()), Some(by.clone()));
    assert_eq!(Parameters::from_list(&by.list()), Some(by));
    for text in ["", "1 2", "1 2 3 4", "1 2 0", "1 2 -3", "1 2 x"] {
        assert_eq!(Parameters::parse(text), None, "{text}");
    }
}
