//! Stencils after each other.

use crate::common::{Plain, Within, assembles, check, same_bits_from_c, whole_input};

/// Stage after stage on a picture that is larger by what all of them read.
pub fn expected(of: &Plain, extents: &[i32]) -> Vec<f64> {
    let mut reach = 64;
    let row = |reach: i32| extents[0] + 2 * reach;
    let mut values: Vec<u16> = (-reach..extents[1] + reach)
        .flat_map(|y| (-reach..extents[0] + reach).map(move |x| (x, y)))
        .map(|(x, y)| of.at(&[x, y]) as u16)
        .collect();
    while reach > 0 {
        let (before, after) = (row(reach), reach - 2);
        let at = |x: i32, y: i32| values[((y + reach) * before + x + reach) as usize];
        let mut next = vec![];
        for y in -after..extents[1] + after {
            for x in -after..extents[0] + after {
                let taps = (-2..=2).flat_map(|i| (-2..=2).map(move |j| (i, j)));
                let sum =
                    taps.map(|(i, j)| u32::from(at(x + i, y + j)) * ((i + 3) * (j + 3)) as u32).sum::<u32>();
                next.push(sum as u16);
            }
        }
        (values, reach) = (next, after);
    }
    values.into_iter().map(f64::from).collect()
}

#[test]
fn chains() {
    let extents = [41, 23];
    let input = whole_input(&extents, 1 << 16);
    let expected = expected(&Plain::of(&input), &extents);
    // Without a schedule everything is inlined: 25 to the power of 32 taps.
    check("stencil_chain", &[], 16, &[input], &expected, Within::Exactly);
}

#[test]
fn elsewhere() {
    assembles("stencil_chain", &[]);
    same_bits_from_c("stencil_chain", &[], 16, &[whole_input(&[35, 20], 1 << 16)]);
}
