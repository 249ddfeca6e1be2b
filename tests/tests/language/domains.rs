//! Grids of one to four dims, several index spaces in one energy, arrays of bytes.

use super::agrees;
use sumsq::assembled::Explicit;
use sumsq::{ArrayData, CompileOptions, NamedArray, Options, Precision};
use sumsq_tests::{Random, bind, doubles, indices, solve};

/// A non-linear energy over a grid, with a guarded and an unguarded reach.
fn grid(dims: &[usize], seed: u64) {
    let n = dims.len();
    let offset = |d: usize, by: i32| {
        let parts: Vec<String> = (0..n).map(|k| if k == d { by.to_string() } else { "0".into() }).collect();
        parts.join(",")
    };
    let (origin, names) = (offset(n, 0), ["A", "B", "C", "D"].map(String::from)[..n].join(","));
    let mut text = String::new();
    for (d, name) in names.split(',').enumerate() {
        text += &format!("local {name} = Dim(\"{name}\", {d})\n");
    }
    text += &format!(
        "local X, F = Unknown(\"X\", opt_float2, {{{names}}}, 0), Array(\"F\", opt_float2, {{{names}}}, 1)\n"
    );
    text += "Exclude(greater(F(";
    text += &format!("{origin},1), 0.8))\n");
    text += &format!("local S = ComputedArray(\"S\", {{{names}}}, sin(X({origin},0)) * X({origin},1))\n");
    text += &format!("Energy(X({origin}) - F({origin}))\n");
    for d in 0..n {
        let (ahead, behind) = (offset(d, 1), offset(d, -2));
        text += &format!("Energy(X({origin}) - X({ahead}) * cos(X({origin},1)))\n");
        text += &format!(
            "Energy(Select(InBounds({behind}), 0.3 * S({origin}) + 0.01 * Index({d}) * S({behind}), 0))\n"
        );
    }
    let shape: Vec<usize> = dims.iter().rev().copied().chain([2]).collect();
    let scalars = shape.iter().product();
    let mut random = Random::new(seed);
    agrees(
        &text,
        &[doubles("X", &shape, random.numbers(scalars)), doubles("F", &shape, random.numbers(scalars))],
    );
}

#[test]
fn one_dim() {
    grid(&[101], 61);
}

#[test]
fn three_dims() {
    grid(&[13, 7, 5], 62);
}

#[test]
fn four_dims() {
    grid(&[7, 5, 3, 4], 63);
}

#[test]
fn one_element() {
    grid(&[1, 1], 64);
}

/// A stencil over an image, a graph from its pixels to nodes and to per-edge data, nodes with a graph of their own, a global.
#[test]
fn several_index_spaces() {
    let text = r#"
        local W, H, N, E = Dim("W", 0), Dim("H", 1), Dim("N", 2), Dim("E", 3)
        local X = Unknown("X", opt_float2, {W,H}, 0)
        local Y = Unknown("Y", opt_float3, {N}, 1)
        local Z = Unknown("Z", opt_float, {N}, 2)
        local T = Unknown("T", opt_float, {}, 3)
        local A = Array("A", opt_float2, {W,H}, 4)
        local B = Array("B", opt_float, {E}, 5)
        local M = Array("M", opt_float, {N}, 6)
        local G = Graph("G", 7, "p", {W,H}, 8, "n", {N}, 9, "e", {E}, 10)
        local K = Graph("K", 11, "a", {N}, 12, "b", {N}, 13, "c", {N}, 14)
        Exclude(greater(M(0), 0.7))
        Exclude(less(A(0,0,1), -0.9))
        Energy(X(0,0) - A(0,0), X(0,0) - X(1,0), T() * (X(0,0,0) - X(0,1,1)))
        Energy(B(G.e) * (Y(G.n, 0) * X(G.p, 1) - sin(Y(G.n, 2))), X(G.p) * Z(G.n))
        Energy(Y(K.a) - Y(K.b) * Z(K.c), T() * Z(K.b) - 0.1)
        Energy(0.2 * Y(0), Z(0) - 1, Z(0) - Z(1))
    "#;
    let (w, h, n, e, k) = (19, 15, 27, 211, 45);
    let mut random = Random::new(65);
    let p = random.below(w, e).into_iter().zip(random.below(h, e)).flat_map(|(x, y)| [x, y]).collect();
    agrees(
        text,
        &[
            doubles("X", &[h, w, 2], random.numbers(2 * w * h)),
            doubles("Y", &[n, 3], random.numbers(3 * n)),
            doubles("Z", &[n], random.numbers(n)),
            doubles("T", &[], random.numbers(1)),
            doubles("A", &[h, w, 2], random.numbers(2 * w * h)),
            doubles("B", &[e], random.numbers(e)),
            doubles("M", &[n], random.numbers(n)),
            indices("G.p", 2, p),
            indices("G.n", 1, random.below(n, e)),
            indices("G.e", 1, (0..e as i64).collect()),
            indices("K.a", 1, random.below(n, k)),
            indices("K.b", 1, random.below(n, k)),
            indices("K.c", 1, random.below(n, k)),
        ],
    );
}

const MASKED: &str = r#"
    local W, H = Dim("W", 0), Dim("H", 1)
    local X = Unknown("X", opt_float, {W,H}, 0)
    local A = Array("A", TYPE, {W,H}, 1)
    Exclude(eq(A(0,0), 7))
    local S = ComputedArray("S", {W,H}, A(0,0) / 255 * X(0,0) * X(0,0))
    Energy(X(0,0) - A(0,0) / 255, A(1,0) * (S(0,0) - S(0,1)) / 100)
"#;

/// Bytes mean what the same numbers in floating point mean.
#[test]
fn bytes() {
    let (w, h) = (31, 17);
    let mut random = Random::new(66);
    let (x, values) = (random.numbers(w * h), random.below(256, w * h));
    let typed = |name: &str, data: ArrayData| {
        let text = MASKED.replace("TYPE", name);
        let array = NamedArray { name: "A".into(), shape: vec![h, w], data };
        (text, [doubles("X", &[h, w], x.clone()), array])
    };
    let (text, arrays) = typed("uint8", ArrayData::Bytes(values.iter().map(|&v| v as u8).collect()));
    agrees(&text, &arrays);
    let (float_text, float_arrays) =
        typed("opt_float", ArrayData::F64(values.iter().map(|&v| v as f64).collect()));
    let result = |text: &str, arrays: &[NamedArray]| {
        let (energy, mut data) = bind(text, arrays);
        solve(
            &energy,
            &mut data,
            &Options {
                compile: CompileOptions { precision: Precision::F64, ..CompileOptions::default() },
                ..Options::default()
            },
        );
        data.x()
    };
    let (bytes, floats) = (result(&text, &arrays), result(&float_text, &float_arrays));
    let apart = bytes.iter().zip(&floats).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    // A conversion is fused with other operations than a read is.
    assert!(apart < 1e-13, "{apart:e}");
}

/// Bytes at the vertices of a graph and under samples, which are gathered, beside bytes that stencils read.
#[test]
fn bytes_that_are_gathered() {
    let text = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W,H}, 0)
        local A = Array("A", uint8, {W,H}, 1)
        local B = Array("B", uint8, {W,H}, 2)
        local C = Array("C", uint8, {W,H}, 3)
        local S = SampledImage(B)
        local G = Graph("G", 4, "a", {W,H}, 5, "b", {W,H}, 6)
        Energy(X(0,0) - C(1,0) / 100)
        Energy(0.01 * S(Index(0) + 0.25, Index(1) - 0.5) * X(0,0))
        Energy(0.01 * A(G.a) * (X(G.a) - X(G.b)) - C(G.b) / 100)
    "#;
    let (w, h, edges) = (35, 13, 90);
    let mut random = Random::new(67);
    let mut bytes = |name: &str| {
        let data = ArrayData::Bytes(random.below(256, w * h).into_iter().map(|v| v as u8).collect());
        NamedArray { name: name.into(), shape: vec![h, w], data }
    };
    let mut arrays = vec![bytes("A"), bytes("B"), bytes("C")];
    arrays.push(doubles("X", &[h, w], random.numbers(w * h)));
    for slot in ["G.a", "G.b"] {
        let (x, y) = (random.below(w, edges), random.below(h, edges));
        arrays.push(indices(slot, 2, x.into_iter().zip(y).flat_map(|(x, y)| [x, y]).collect()));
    }
    agrees(text, &arrays);
}

/// Outside of InBounds(-1) the box of InBoundsExpanded(0, 1) leaves the domain: X(1) is not read, and the last element but one does not count.
#[test]
fn a_branch_that_cannot_be_reads_nothing() {
    let text = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        Energy(Select(InBounds(-1), 0.5, Select(InBoundsExpanded(0, 1), X(1), X(2))))
    "#;
    let (energy, data) = bind(text, &[doubles("X", &[4], vec![1.0; 4])]);
    assert_eq!(Explicit::new(&energy, &data).unwrap().rows(), 2);
}
