//! Binding, rule by rule: what is taken, and what each refusal says.

use crate::problem::data::*;

/// A 2-D picture, an array on its own dim, a param of each kind, a graph into both spaces.
const ENERGY: &str = r#"
local W, H, N = Dim("W", 0), Dim("H", 1), Dim("N", 2)
local X = Unknown("X", opt_float2, {W, H}, 0)
local A = Array("A", opt_float, {W, H}, 1)
local B = Array("B", uint8, {N}, 2)
local s = Param("s", float, 3)
local t = Param("t", opt_float3, 4)
local G = Graph("G", 5, "p", {W, H}, 6, "q", {N}, 7)
Energy(s * X(0, 0) - A(0, 0) + t(1))
Energy(X(G.p) - B(G.q))
"#;

fn energy() -> Energy {
    Energy::from_text("test.t", ENERGY).unwrap()
}

fn array(name: &str, shape: &[usize], data: ArrayData) -> NamedArray {
    NamedArray { name: name.to_string(), shape: shape.to_vec(), data }
}

fn floats(name: &str, shape: &[usize]) -> NamedArray {
    let n = shape.iter().product();
    array(name, shape, ArrayData::F32((0..n).map(|i| i as f32).collect()))
}

fn ints(name: &str, shape: &[usize], values: &[i64]) -> NamedArray {
    array(name, shape, ArrayData::Int(values.to_vec(), "int32"))
}

/// W = 4, H = 3, N = 5, two hyperedges.
fn inputs() -> Vec<NamedArray> {
    vec![
        floats("X", &[3, 4, 2]),
        floats("A", &[3, 4]),
        ints("B", &[5], &[0, 1, 2, 254, 255]),
        floats("s", &[]),
        floats("t", &[3]),
        ints("G.p", &[2, 2], &[3, 0, 1, 2]),
        ints("G.q", &[2], &[4, 4]),
    ]
}

/// The inputs with one replaced, or added.
fn with(replacement: NamedArray) -> Vec<NamedArray> {
    let mut arrays = inputs();
    arrays.retain(|a| a.name != replacement.name);
    arrays.push(replacement);
    arrays
}

/// The message of a refusal.
fn refusal(arrays: &[NamedArray]) -> String {
    ProblemData::bind(&energy(), arrays).unwrap_err().to_string()
}

#[track_caller]
fn assert_refused(arrays: &[NamedArray], parts: &[&str]) {
    let message = refusal(arrays);
    for part in parts {
        assert!(message.contains(part), "`{message}` does not say `{part}`");
    }
}

#[test]
fn binds_a_complete_set() {
    let energy = energy();
    let data = ProblemData::bind(&energy, &inputs()).map(ProblemData::into_owned).unwrap();
    assert_eq!(data.dims(), [4, 3, 5]);
    assert_eq!(data.unknowns()[0].len(), 24);
    assert_eq!(data.unknowns()[0][23], 23.0);
    assert_eq!(*data.array("B").unwrap(), [0.0, 1.0, 2.0, 254.0, 255.0]);
    assert_eq!(data.params(), [vec![0.0], vec![0.0, 1.0, 2.0]]);
    assert_eq!(data.graphs()[0].edges, 2);
    // (x, y) = (3, 0) and (1, 2), fastest-varying first.
    assert_eq!(data.graphs()[0].vertices, [vec![3, 9], vec![4, 4]]);
    assert!(data.warnings().is_empty());
}

#[test]
fn a_scalar_field_may_have_a_channel_axis() {
    let data =
        ProblemData::bind(&energy(), &with(floats("A", &[3, 4, 1]))).map(ProblemData::into_owned).unwrap();
    assert_eq!(data.array("A").unwrap().len(), 12);
    assert!(ProblemData::bind(&energy(), &with(ints("B", &[5, 1], &[0; 5]))).is_ok());
    assert!(ProblemData::bind(&energy(), &with(ints("G.q", &[2, 1], &[0, 1]))).is_ok());
}

#[test]
fn dims_are_optional_and_checked() {
    let data =
        ProblemData::bind(&energy(), &with(ints("W", &[], &[4]))).map(ProblemData::into_owned).unwrap();
    assert_eq!(data.dims()[0], 4);
    assert_refused(
        &with(ints("W", &[], &[5])),
        &["dim `W`", "is 5 by the key `W`", "4 by unknown `X` of shape (3, 4, 2)"],
    );
    assert_refused(&with(ints("W", &[1], &[4])), &["dim `W`", "expected ()", "came (1,)"]);
    assert_refused(&with(floats("W", &[])), &["dim `W`", "0-d integer", "float32"]);
    assert_refused(&with(ints("W", &[], &[0])), &["dim `W`", "from 1", "came 0"]);
    assert_refused(&with(ints("W", &[], &[-3])), &["dim `W`", "came -3"]);
}

#[test]
fn arrays_agree_on_extents() {
    assert_refused(
        &with(floats("A", &[3, 5])),
        &["dim `W`", "4 by unknown `X` of shape (3, 4, 2)", "5 by array `A` of shape (3, 5)"],
    );
    assert_refused(&with(floats("X", &[0, 4, 2])), &["dim `H`", "came 0", "unknown `X`"]);
}

#[test]
fn shapes_are_checked() {
    let cases = [
        (floats("X", &[3, 4]), "expected (H, W, 2), came (3, 4)"),
        (floats("X", &[3, 4, 3]), "expected (H, W, 2), came (3, 4, 3)"),
        (floats("X", &[1, 3, 4, 2]), "came (1, 3, 4, 2)"),
        (floats("A", &[12]), "array `A` has the wrong shape: expected (H=3, W=4), came (12,)"),
        (floats("s", &[2]), "param `s` has the wrong shape: expected (), came (2,)"),
        (floats("t", &[]), "param `t` has the wrong shape: expected (3,), came ()"),
        (ints("G.p", &[4], &[0; 4]), "index array `G.p` has the wrong shape: expected (E, 2), came (4,)"),
        (ints("G.q", &[2, 2], &[0; 4]), "expected (E,), came (2, 2)"),
    ];
    for (replacement, message) in cases {
        assert_refused(&with(replacement), &[message]);
    }
    let short = array("A", &[3, 4], ArrayData::F32(vec![0.0; 11]));
    assert_refused(&with(short), &["`A`", "expected 12 elements, came 11"]);
    let absurd = array("A", &[usize::MAX, 4], ArrayData::F32(Vec::new()));
    assert_refused(&with(absurd), &["`A`", "came 0"]);
}

#[test]
fn missing_names_say_what_was_expected() {
    let without = |name: &str| {
        let mut arrays = inputs();
        arrays.retain(|a| a.name != name);
        refusal(&arrays)
    };
    assert_eq!(without("A"), "array `A` is missing: expected shape (H=3, W=4)");
    assert_eq!(without("X"), "unknown `X` is missing: expected shape (H, W, 2)");
    assert_eq!(without("t"), "param `t` is missing: expected shape (3,)");
    assert_eq!(without("G.q"), "index array `G.q` is missing: expected shape (E,)");
}

#[test]
fn a_dim_that_nothing_fixes_is_missing() {
    let text = r#"
        local N, E = Dim("N", 0), Dim("E", 1)
        local X = Unknown("X", opt_float, {N}, 0)
        local G = Graph("G", 1, "v", {N}, 2, "e", {E}, 3)
        Energy(X(G.v) - 1)"#;
    let energy = Energy::from_text("test.t", text).unwrap();
    let mut arrays = vec![floats("X", &[4]), ints("G.v", &[1], &[3]), ints("G.e", &[1], &[0])];
    let message = ProblemData::bind(&energy, &arrays).unwrap_err().to_string();
    assert!(message.contains("dim `E` is missing"), "{message}");
    arrays.push(ints("E", &[], &[1]));
    assert!(ProblemData::bind(&energy, &arrays).is_ok());
}

#[test]
fn indices_are_checked() {
    assert_refused(
        &with(ints("G.p", &[2, 2], &[3, 0, 1, 3])),
        &["graph `G`", "vertex `G.p`", "row 1", "0 to 2 along dim `H`", "came 3"],
    );
    assert_refused(&with(ints("G.q", &[2], &[-1, 0])), &["vertex `G.q`", "row 0", "came -1"]);
    assert_refused(&with(ints("G.q", &[3], &[0; 3])), &["graph `G`", "2 at `G.p`", "3 at `G.q`"]);
    assert_refused(&with(ints("G.p", &[0, 2], &[])), &["graph `G` has no edges", "(0, 2)"]);
    assert_refused(&with(floats("G.q", &[2])), &["`G.q`", "expected integers, came float32"]);
}

#[test]
fn unknowns_and_params_are_finite_and_arrays_need_not_be() {
    let holed = |name: &str, shape: &[usize], at: usize, value: f64| {
        let mut data = vec![0.0; shape.iter().product()];
        data[at] = value;
        array(name, shape, ArrayData::F64(data))
    };
    assert_refused(
        &with(holed("X", &[3, 4, 2], 13, f64::NAN)),
        &["unknown `X`, element [1, 2, 1]", "finite", "NaN"],
    );
    assert_refused(&with(holed("t", &[3], 2, f64::INFINITY)), &["param `t`, element [2]", "inf"]);
    let data = ProblemData::bind(&energy(), &with(holed("A", &[3, 4], 5, f64::NEG_INFINITY)))
        .map(ProblemData::into_owned)
        .unwrap();
    assert_eq!(data.array("A").unwrap()[5], f64::NEG_INFINITY);
}

#[test]
fn integers_are_held_exactly_or_refused() {
    let energy = energy();
    let bind = |value: i64| {
        let mut values = vec![0; 12];
        values[7] = value;
        ProblemData::bind(&energy, &with(ints("A", &[3, 4], &values))).map(ProblemData::into_owned)
    };
    let data = bind((1 << 24) + 1).unwrap();
    assert!(data.check_exact(&energy, Precision::F64).is_ok());
    assert!(data.check_exact(&energy, Precision::Mixed).is_ok());
    let message = data.check_exact(&energy, Precision::F32).unwrap_err().to_string();
    assert!(message.contains("`A`, element 7") && message.contains("float32"), "{message}");
    assert!(message.contains("16777217"), "{message}");
    assert!(bind(1 << 24).unwrap().check_exact(&energy, Precision::F32).is_ok());
    assert!(bind((1 << 53) + 1).unwrap_err().to_string().contains("float64"));
    assert!(bind(i64::MAX).is_err());
    // Floats are rounded, not refused.
    let rounded = array("A", &[3, 4], ArrayData::F64(vec![0.1; 12]));
    let data = ProblemData::bind(&energy, &with(rounded)).map(ProblemData::into_owned).unwrap();
    assert!(data.check_exact(&energy, Precision::F32).is_ok());
}

#[test]
fn integer_declarations_take_their_values_only() {
    let floats = |v: f64| array("B", &[5], ArrayData::F64(vec![0.0, 1.0, v, 0.0, 0.0]));
    assert!(ProblemData::bind(&energy(), &with(floats(200.0))).is_ok());
    assert_refused(&with(floats(0.5)), &["array `B`, element [2]", "uint8", "came 0.5"]);
    assert_refused(&with(floats(256.0)), &["uint8", "came 256"]);
    let bools = array("B", &[5], ArrayData::Bool(vec![true, false, true, true, false]));
    let data = ProblemData::bind(&energy(), &with(bools)).map(ProblemData::into_owned).unwrap();
    assert_eq!(*data.array("B").unwrap(), [1.0, 0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn names_are_used_once_and_unused_ones_are_said() {
    let mut arrays = inputs();
    arrays.push(floats("typo", &[7]));
    let data = ProblemData::bind(&energy(), &arrays).map(ProblemData::into_owned).unwrap();
    assert_eq!(data.warnings(), ["`typo` is not declared by the energy and is not used"]);
    arrays.push(floats("X", &[3, 4, 2]));
    assert_refused(&arrays, &["`X` was given twice"]);
}

#[test]
fn an_update_replaces_numbers_and_keeps_extents() {
    let energy = energy();
    let mut data = ProblemData::bind(&energy, &inputs()).map(ProblemData::into_owned).unwrap();
    let before = data.clone();
    let twos = array("A", &[3, 4], ArrayData::F32(vec![2.0; 12]));
    data.update(&energy, &[twos, ints("G.q", &[2], &[0, 1])]).unwrap();
    assert_eq!(*data.array("A").unwrap(), [2.0; 12]);
    assert_eq!(data.graphs()[0].vertices, [vec![3, 9], vec![0, 1]]);
    assert_eq!((data.x(), data.params()), (before.x(), before.params()));

    let unchanged = data.clone();
    assert!(data.update(&energy, &[floats("A", &[3, 5])]).is_err());
    assert!(data.update(&energy, &[floats("s", &[]), ints("G.q", &[1], &[0])]).is_err());
    assert_eq!((data.array("A"), data.params()), (unchanged.array("A"), unchanged.params()));
    // A new number of edges needs both vertices.
    let mut data = before;
    data.update(&energy, &[ints("G.p", &[1, 2], &[0, 0]), ints("G.q", &[1], &[0])]).unwrap();
    assert_eq!(data.graphs()[0].edges, 1);
}

#[test]
fn views_with_strides_are_what_their_copies_are() {
    let energy = energy();
    // X is upside down, and every second number of a column-major array; A is a row repeated.
    let x: Vec<f64> = (0..48).map(f64::from).collect();
    let a = [5u8, 6, 7, 8];
    let (b, s, t) = ([0u16, 1, 2, 254, 255], [2.0f32], [0i32, 1, 2]);
    let (p, q) = ([3i32, 0, 1, 2], [4u64, 4]);
    let views = [
        ArrayView::new("X", &[3, 4, 2], &x[..]).strided(&[-2, 6, 24]),
        ArrayView::new("A", &[3, 4], &a[..]).strided(&[0, 1]),
        ArrayView::new("B", &[5], &b[..]),
        ArrayView::new("s", &[], &s[..]),
        ArrayView::new("t", &[3], &t[..]),
        ArrayView::new("G.p", &[2, 2], &p[..]),
        ArrayView::new("G.q", &[2], &q[..]),
    ];
    let data = ProblemData::bind(&energy, views).unwrap();
    let own = data.clone().into_owned();
    assert_eq!((data.x(), data.array("A"), data.array("B")), (own.x(), own.array("A"), own.array("B")));
    assert_eq!(data.unknown("X").unwrap()[..4], [4.0, 28.0, 10.0, 34.0]);
    assert_eq!(data.array("A").unwrap()[4..], [5.0, 6.0, 7.0, 8.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(data.graphs()[0].vertices, [vec![3, 9], vec![4, 4]]);
    let short = ArrayView::new("X", &[3, 4, 2], &x[..40]).strided(&[-2, 6, 24]);
    let message = ProblemData::bind(&energy, [short]).unwrap_err().to_string();
    assert!(message.contains("`X`") && message.contains("came 40"), "{message}");
}

#[test]
fn unknowns_go_out_as_they_came_in() {
    let energy = energy();
    let data = ProblemData::bind(&energy, &inputs()).map(ProblemData::into_owned).unwrap();
    let out = &data.unknown_arrays(Precision::F32)[0];
    assert_eq!((out.name.as_str(), out.shape.as_slice(), out.data.dtype()), ("X", &[3, 4, 2][..], "float32"));
    assert_eq!(data.unknown_arrays(Precision::Mixed)[0].data.dtype(), "float64");
}
