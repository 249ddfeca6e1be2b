//! The normal form: each identity holds as equality of ids.

use super::*;

struct Vars {
    dag: Dag,
    x: ExprId,
    y: ExprId,
    z: ExprId,
    b: ExprId,
    c: ExprId,
}

fn vars() -> Vars {
    let mut dag = Dag::new();
    let [x, y, z] = [0, 1, 2].map(|i| dag.access(at(i, 0, 0)));
    let b = dag.less(x, y);
    let c = dag.less(y, z);
    Vars { dag, x, y, z, b, c }
}

#[test]
fn sums_collect_like_terms_and_fold_constants() {
    let Vars { mut dag, x, y, .. } = vars();
    let two_a = dag.sum(0.0, &[(2.0, x), (4.0, y)]);
    let sum = dag.sum(1.5, &[(1.0, two_a), (3.0, x)]);
    assert_eq!(sum, dag.sum(1.5, &[(4.0, y), (5.0, x)]));
    assert_eq!(dag.display(sum), "5*X0(0,0,0) + 4*X1(0,0,0) + 1.5");
    let zero = dag.sub(sum, sum);
    assert!(dag.is_constant(zero, 0.0));
    let inf = dag.constant(f64::INFINITY);
    let scaled = dag.mul(inf, x);
    let nothing = dag.scale(0.0, scaled);
    assert!(dag.is_constant(nothing, 0.0));
}

#[test]
fn products_merge_exponents_and_cancel() {
    let Vars { mut dag, x, y, .. } = vars();
    let xx = dag.mul(x, x);
    assert_eq!(xx, dag.powi(x, 2));
    let quotient = dag.div(xx, y);
    let back = dag.mul(quotient, y);
    assert_eq!(back, xx);
    let one = dag.div(x, x);
    assert!(dag.is_constant(one, 1.0));
    let negative = dag.sub(y, x);
    let positive = dag.sub(x, y);
    assert_eq!(dag.powi(negative, 2), dag.powi(positive, 2));
    let tripled = dag.scale(3.0, positive);
    let (square, expected) = (dag.powi(tripled, 2), dag.powi(positive, 2));
    assert_eq!(square, dag.scale(9.0, expected));
    let (half, quarter) = (dag.constant(0.5), dag.constant(4.0));
    let root = dag.pow(x, half);
    assert_eq!(root, dag.call(Function::Sqrt, &[x]));
    let by_four = dag.div(x, quarter);
    assert_eq!(by_four, dag.scale(0.25, x));
}

#[test]
fn boolean_products_are_selects_and_conjunctions() {
    let Vars { mut dag, x, y, b, c, .. } = vars();
    let zero = dag.constant(0.0);
    let product = dag.mul(b, x);
    assert_eq!(product, dag.select(b, x, zero));
    assert_eq!(dag.mul(b, c), dag.and(&[b, c]));
    assert_eq!(dag.powi(b, 3), b);
    let complement = dag.sum(1.0, &[(-1.0, b)]);
    assert_eq!(complement, dag.not(b));
    let nothing = dag.mul(b, complement);
    assert_eq!(nothing, zero);
    let (guarded_x, guarded_y) = (dag.mul(b, x), dag.mul(b, y));
    let sum = dag.add(guarded_x, guarded_y);
    let inner = dag.add(x, y);
    assert_eq!(sum, dag.select(b, inner, zero));
    let either = dag.mul(complement, y);
    let choice = dag.add(guarded_x, either);
    assert_eq!(choice, dag.select(b, x, y));
    let square = dag.mul(guarded_x, guarded_y);
    let xy = dag.mul(x, y);
    assert_eq!(square, dag.select(b, xy, zero));
    let twice = dag.add(b, b);
    assert_eq!(twice, dag.scale(2.0, b));
}

#[test]
fn logic_absorbs_and_contradicts() {
    let Vars { mut dag, b, c, .. } = vars();
    let either = dag.or(&[b, c]);
    assert_eq!(dag.and(&[b, either]), b);
    let both = dag.and(&[b, c]);
    assert_eq!(dag.or(&[b, both]), b);
    let not_b = dag.not(b);
    let (never, always) = (dag.and(&[b, not_b, c]), dag.or(&[b, not_b]));
    assert!(dag.is_constant(never, 0.0));
    assert!(dag.is_constant(always, 1.0));
    let (right, left) = (offset(1, 0), offset(-1, 0));
    let (in_right, in_left) = (dag.in_bounds(&right, &right), dag.in_bounds(&left, &left));
    let hull = dag.and(&[in_right, in_left]);
    assert_eq!(hull, dag.in_bounds(&left, &right));
    assert!(dag.implies(hull, in_right));
    assert_eq!(dag.or(&[hull, in_right]), in_right);
    let origin = dag.in_bounds(&offset(0, 0), &offset(0, 0));
    assert!(dag.is_constant(origin, 1.0));
}

#[test]
fn selects_resolve_under_their_conditions() {
    let Vars { mut dag, x, y, z, b, c } = vars();
    let (zero, one) = (dag.constant(0.0), dag.constant(1.0));
    assert_eq!(dag.select(b, x, x), x);
    assert_eq!(dag.select(b, one, zero), b);
    assert_eq!(dag.select(b, zero, one), dag.not(b));
    let inner = dag.select(b, x, y);
    assert_eq!(dag.select(b, inner, z), dag.select(b, x, z));
    assert_eq!(dag.select(b, z, inner), dag.select(b, z, y));
    let nested = dag.select(c, x, zero);
    let nested = dag.select(b, nested, zero);
    let both = dag.and(&[b, c]);
    assert_eq!(nested, dag.select(both, x, zero));
    let double = dag.less(y, x);
    assert!(dag.excludes(b, double));
}

#[test]
fn comparisons_of_two_valued_operands_fold() {
    let Vars { mut dag, x, b, .. } = vars();
    let zero = dag.constant(0.0);
    assert_eq!(dag.greater(b, zero), b);
    assert_eq!(dag.equal(b, zero), dag.not(b));
    assert_eq!(dag.truth(b), b);
    // NaN is not equal to itself: stays a comparison.
    let same = dag.equal(x, x);
    assert!(matches!(dag.node(same), Node::Compare(..)));
    let nan = dag.constant(f64::NAN);
    let truth = dag.truth(nan);
    assert!(dag.is_constant(truth, 1.0));
}

#[test]
fn text_reads_like_the_language() {
    let Vars { mut dag, x, y, .. } = vars();
    let w = dag.param(ParamId(0), 0);
    let d = dag.sub(x, y);
    let r = dag.mul(w, d);
    assert_eq!(dag.display(r), "P0(0)*(X0(0,0,0) - X1(0,0,0))");
    let root = dag.call(Function::Sqrt, &[x]);
    let q = dag.div(y, root);
    let q = dag.powi(q, 2);
    assert_eq!(dag.display(q), "X1(0,0,0)^2/sqrt(X0(0,0,0))^2");
}

#[test]
fn a_long_product_is_derived_in_halves() {
    let mut dag = Dag::new();
    let access = at(0, 0, 0);
    let x = dag.access(access.clone());
    let square = dag.powi(x, 2);
    let sums = (1..60).map(|i| dag.sum(f64::from(i), &[(1.0, x)])).collect::<Vec<_>>();
    let factors: Vec<(ExprId, i32)> = sums.iter().map(|&s| (s, 1)).chain([(square, -1)]).collect();
    let product = dag.product(1.0, &factors);
    let before = dag.taken().0;
    let slope = dag.derivative(product, &access);
    // Term by term these are 60 products of 60 factors.
    let taken = dag.taken().0 - before;
    assert!(taken < 60 * 60 / 2, "{taken} nodes and operands");
    let point = 0.375;
    let logarithmic = (1..60).map(|i| 1.0 / (point + f64::from(i))).sum::<f64>() - 2.0 / point;
    let values = Values { reads: [(access, point)].into(), ..Values::default() };
    let came = Evaluator::new(&dag, &[product, slope]).eval(&values);
    let (expected, came) = (came[0] * logarithmic, came[1]);
    assert!((came - expected).abs() < 1e-12 * expected.abs(), "{came}, not {expected}");
}
