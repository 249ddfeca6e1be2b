//! The lens: rays as an independent tracer has them, the energy's derivatives, and a shorter lens by fewer steps than descent takes.

use sumsq_examples::demos::lens_design::{Beams, Designer, LEAST, Lens, NUMBERS, Spots, trace};
use sumsq_tests::{Random, assert_close};

type V = [f64; 3];

fn dot(a: V, b: V) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// a + s b.
fn along(a: V, s: f64, b: V) -> V {
    [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
}

/// The point at which a ray meets the sensor: whole spheres in the lens's own coordinates, Snell's law by its sines.
/// None where it misses or is reflected.
fn meets(lens: &Lens, mut at: V, mut way: V) -> Option<V> {
    let mut vertex = 0.0;
    for (k, c) in lens.curvatures.iter().enumerate() {
        let radius = 1.0 / c;
        let centre = [0.0, 0.0, vertex + radius];
        let from = along(at, -1.0, centre);
        let (half, product) = (dot(from, way), dot(from, from) - radius * radius);
        let root = half * half - product;
        if root < 0.0 {
            return None;
        }
        // Of the two meetings, that at which light crosses from the vertex's side inwards.
        at = along(at, -half - radius.signum() * root.sqrt(), way);
        if (at[2] - centre[2]) * radius >= 0.0 {
            return None;
        }
        let normal = along([0.0; 3], 1.0 / radius, along(centre, -1.0, at));
        let cos = dot(normal, way);
        let across = along(way, -cos, normal);
        let ratio = lens.indices[k] / lens.indices[k + 1];
        let sines = ratio * ratio * dot(across, across);
        if sines > 1.0 {
            return None;
        }
        way = along(along([0.0; 3], ratio, across), (1.0 - sines).sqrt(), normal);
        vertex += lens.gaps[k];
    }
    Some(along(at, (vertex - at[2]) / way[2], way))
}

/// Of every ray its way by the pipeline, and where it meets the sensor by the tracer above.
fn both(lens: &Lens, beams: &Beams) -> Vec<(Vec<[f64; NUMBERS]>, Option<V>)> {
    let ways = trace(lens, beams).unwrap();
    let mut all = vec![];
    for (ways, [tangent, height]) in ways.into_iter().zip(&beams.fields) {
        for (way, [x, y]) in ways.into_iter().zip(&beams.samples) {
            let (sin, cos) = tangent.atan().sin_cos();
            let at = [0.5 * beams.aperture * x, 0.5 * beams.aperture * y * height, lens.pupil];
            all.push((way, meets(lens, at, [0.0, sin, cos])));
        }
    }
    all
}

#[test]
fn rays_arrive_where_an_independent_tracer_has_them() {
    let lens = Lens::lange(10.0);
    assert_close("focal length by length", lens.focal() / 10.0, 0.999995 / 1.29606, 1e-5);
    let all = both(&lens, &Beams::of(&lens, 4, 8));
    assert_eq!(all.len(), 4 * 32);
    for (way, expected) in all {
        let (end, expected) = (way[way.len() - 1], expected.unwrap());
        let off = (end[0] - expected[0]).hypot(end[1] - expected[1]);
        assert!(off < 1e-10 && end[NUMBERS - 1] > LEAST, "{end:?}, expected {expected:?}");
    }
}

#[test]
fn rays_that_miss_or_are_reflected_are_lost_and_finite() {
    let lens = Lens::lange(10.0);
    let mut random = Random::new(3);
    let (mut arrived, mut lost) = (0, 0);
    for _ in 0..12 {
        let mut bent = lens.clone();
        bent.curvatures.iter_mut().for_each(|c| *c *= 1.0 + 1.5 * random.number());
        for (way, expected) in both(&bent, &Beams::of(&lens, 2, 5)) {
            assert!(way.iter().flatten().all(|v| v.is_finite()), "{way:?}");
            let end = way[way.len() - 1];
            if end[NUMBERS - 1] <= LEAST {
                lost += 1;
                continue;
            }
            let expected = expected.unwrap_or_else(|| panic!("{way:?} does not arrive"));
            let off = (end[0] - expected[0]).hypot(end[1] - expected[1]);
            assert!(off < 1e-8 * (1.0 + expected[0].hypot(expected[1])), "{end:?}, expected {expected:?}");
            arrived += 1;
        }
    }
    assert!(arrived > 50 && lost > 50, "{arrived} arrived, {lost} are lost");
}

#[test]
fn derivatives_are_certified_with_all_rays_and_with_few() {
    let lens = Lens::lange(10.0);
    let designer = Designer::new(&lens, &Beams::of(&lens, 2, 4)).unwrap();
    let mut bent = lens.clone();
    bent.curvatures[3] *= 1.6;
    for (lens, length) in [(lens, 9.0), (bent, 8.0)] {
        let c = designer.certified(&lens, length).unwrap();
        assert!(c.gradient.iter().all(|(_, off)| *off < 1e-5) && c.product < 1e-4, "{c:?}");
        assert!(c.asymmetry < 1e-10 && c.least_diagonal > 0.0, "{c:?}");
    }
}

#[test]
fn a_shorter_lens_is_sharper_than_by_descent_in_a_tenth_of_the_steps() {
    let lens = Lens::lange(10.0);
    let beams = Beams::of(&lens, 2, 4);
    let designer = Designer::new(&lens, &beams).unwrap();
    let (short, report) = designer.solve(&lens, 9.0, 20, &mut |_| {}).unwrap();
    let (other, course) = designer.descend(&lens, 9.0, 200).unwrap();
    let [ours, theirs] = [&short, &other].map(|lens| Spots::of(lens, &beams).unwrap());
    assert!(report.iterations.len() <= 20 && course.energies.len() > 20, "{}", course.energies.len());
    assert!(course.energies.is_sorted_by(|a, b| a >= b), "{:?}", course.energies);
    assert!((short.length() - 9.0).abs() < 0.01, "{}", short.length());
    assert_close("focal length", short.focal(), lens.focal(), 1e-3);
    assert_eq!(ours.lost, 0);
    assert!(ours.size() <= theirs.size(), "{} and {} by descent", ours.size(), theirs.size());
}
