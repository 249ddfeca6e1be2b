//! A burst of raw frames, small: its energy is certified, and picture and homographies come nearer to the truth.

use sumsq_examples::demos::burst_demosaicking::{
    Burst, Reconstruction, WEIGHT, align, certified, reconstruct, solve_options,
};

fn burst() -> Burst {
    let path = sumsq_tests::workspace_root().join("data/pipelines/seeding.jpg");
    let photograph = image::open(path).unwrap().to_rgb8();
    Burst::of(&photograph, [2000, 1200], [120, 88], 9)
}

#[test]
fn picture_and_homographies_are_found() {
    let burst = burst();
    let homographies = align(&burst, &mut |_, _| {}).unwrap();
    let aligned = burst.corners(&homographies);
    assert!(aligned < 0.5, "{aligned}");
    let single = burst.demosaicked(0);
    let start = Reconstruction::of(&burst, &single, homographies);
    let mut energies = vec![];
    let (end, report) =
        reconstruct(&burst, &start, WEIGHT, &solve_options(), &mut |step| energies.push(step.energy))
            .unwrap();
    assert!(report.energy_final < 0.3 * report.energy_initial, "{report}");
    assert_eq!(energies.len(), report.iterations.len());
    let corners = burst.corners(&end.homographies);
    assert!(corners < 0.3 && corners < aligned, "{corners}, {aligned} before");
    let (before, after) = (burst.error(&single), burst.error(&end.coarse(&burst)));
    assert!(after < 0.8 * before, "{after}, {before} before");
}

#[test]
fn the_energy_is_certified_away_from_its_kinks() {
    let picture = certified(&burst(), 8.0).unwrap().gradient[0].1;
    assert!(picture < 1e-7, "{picture}");
    // Pixels come into view and leave it: differences along a homography see some of them.
    let c = certified(&burst(), 1.0).unwrap();
    let homography = c.gradient[1].1;
    assert!(homography < 0.2 && c.product < 0.2, "{c:?}");
    assert!(c.asymmetry < 1e-12 && c.least_diagonal >= 0.0, "{c:?}");
}
