//! The cost of computing q = J^T J p again where sweep B reads it, against that of keeping it, in bytes per element and PCG iteration; and
//! the same of diag(J^T J), which both sweeps read.

use crate::matrix_free::preconditioner::diagonal::diagonal;
use crate::matrix_free::skeleton::Space;
use rustc_hash::FxHashSet;
use sumsq_energy::dag::{Access, ExprId, Node, Source};
use sumsq_energy::derive::{Kind, Routines, Site, count_ops};
use sumsq_energy::model::{Domain, ElementType, Energy};

/// Bytes of a scalar of the vectors. In float64 all traffic doubles, and so does the time of an operation.
const SCALAR: f64 = 4.0;

/// Bytes that memory moves in the time of an operation on one lane: some 20 GB/s of a core against some 80 G operations.
const PER_OPERATION: f64 = 0.25;

/// Tells whether sweep A had better store q of a grid for sweep B. Where graphs or globals have a share, theirs is stored anyway.
pub fn keeps_q(energy: &Energy, r: &Routines, space: &Space) -> bool {
    let jtjp = r.roots(Kind::JtJp, Site::Element(space.id));
    if !space.slots.is_empty() || energy.is_global(space.id) {
        return false;
    }
    // Written, with the line fetched before, and read.
    let kept = 3.0 * SCALAR * space.components as f64;
    let damping = if space.inline_diagonal { 0.0 } else { SCALAR * space.components as f64 };
    let operations = f64::from(count_ops(&r.dag, jtjp).weight());
    planes(energy, r, jtjp) + damping + PER_OPERATION * operations > kept
}

/// Operations per component up to which the diagonal is summed where it is read: it takes no memory, and where no mask is off it is a number.
/// For residuals over 3 x 3 pixels an iteration takes the same time either way, for 5 x 5 storing saves a third.
const OPERATIONS: f64 = 32.0;

/// Tells whether a diagonal that follows from the element alone had better be stored.
pub fn keeps_diagonal(r: &Routines, space: &Space) -> bool {
    let operations = count_ops(&r.dag, &diagonal(r, space)).weight();
    f64::from(operations) > OPERATIONS * space.components as f64
}

/// Bytes of the distinct fields, channel by channel, that `roots` read at and around an element. Sweep B reads p anyway.
fn planes(energy: &Energy, r: &Routines, roots: &[ExprId]) -> f64 {
    let mut seen = FxHashSet::default();
    let nodes = r.dag.reachable(roots).into_iter();
    let bytes = nodes.map(|id| match r.dag.node(id) {
        Node::Access(Access { source: Source::Direction(_), .. }) => 0.0,
        Node::Access(Access { source, channel, .. }) if seen.insert(Some((*source, *channel))) => {
            match source {
                Source::Array(a) if energy.arrays[a.index()].element == ElementType::Uint8 => 1.0,
                Source::Hoisted(Domain::Graph(_)) | Source::Residual(Domain::Graph(_)) => 0.0,
                Source::Product(Domain::Graph(_)) => 0.0,
                _ => SCALAR,
            }
        }
        Node::Free(..) if seen.insert(None) => 1.0,
        _ => 0.0,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use crate::matrix_free::Wanted;
    use crate::matrix_free::choices::{Of, Overrides, Value, derive};
    use crate::matrix_free::plan::compile::Settings;
    use crate::problem::options::CompileOptions;
    use sumsq_codegen::Target;
    use sumsq_energy::derive::Passes;
    use sumsq_energy::model::{Energy, SpaceId};

    /// Tells whether q is kept for residuals of X over a grid with 12 arrays.
    fn keeps_q(residuals: &str) -> bool {
        is_stored(Of::Q(SpaceId(0)), residuals)
    }

    fn is_stored(of: Of, residuals: &str) -> bool {
        let arrays = (0..12).map(|k| format!("A[{k}] = Array('A{k}', opt_float, {{W,H}}, {})\n", k + 1));
        let declared = "local W, H = Dim('W', 0), Dim('H', 1)\nlocal A = {}\n";
        let unknown = "local X = Unknown('X', opt_float, {W,H}, 0)\n";
        let text = format!("{declared}{unknown}{}{residuals}", arrays.collect::<String>());
        let energy = Energy::from_text("test.t", &text).unwrap();
        let given = Overrides::default();
        let derived = derive(&energy, Passes::ALL, &given).unwrap();
        let settings = Settings::new(&energy, &CompileOptions::default()).unwrap();
        let wanted = Wanted { given: &given, sizes: None };
        settings.skeleton(derived, Target::host(), wanted).unwrap().choices.is(of, Value::Root)
    }

    #[test]
    fn the_diagonal_of_a_wide_stencil_is_stored() {
        let stencil = |half: i32| {
            let reads = (-half..=half).flat_map(|y| (-half..=half).map(move |x| (x, y)));
            let terms: Vec<String> =
                reads.map(|(x, y)| format!("{}*X({x},{y})", 1.0 + 0.1 * f64::from(x + 7 * y))).collect();
            format!("Energy({} - A[0](0,0))", terms.join(" + "))
        };
        let differences = "Energy(X(0,0) - A[0](0,0), X(0,0) - X(1,0), X(0,0) - X(0,1))";
        let stored = [differences, &stencil(1), &stencil(2)].map(|r| is_stored(Of::Diagonal(SpaceId(0)), r));
        assert_eq!(stored, [false, false, true]);
    }

    #[test]
    fn few_planes_and_operations_are_read_and_done_twice() {
        assert!(!keeps_q("Energy(X(0,0) - A[0](0,0), X(0,0) - X(1,0), X(0,0) - X(0,1))"));
    }

    #[test]
    fn many_planes_or_operations_are_worth_a_plane_more() {
        let planes = (0..12).map(|k| format!("Energy(A[{k}](0,0) * X(0,0))\n"));
        assert!(keeps_q(&planes.collect::<String>()));
        let far = (1..12).map(|k| format!("Energy(X(0,0) - X({k},0), X(0,0) + 3 * X(0,{k}))\n"));
        assert!(keeps_q(&far.collect::<String>()));
    }
}
