//! A test that all that an expression reads has a say in it: then no folding may take a read away, and the box of the boundary rule is that of
//! the text.

use std::cell::RefCell;
use std::collections::HashMap;
use sumsq_codegen_testing::rng::Rng;
use sumsq_energy_testing::case::{At, Case, Expr, Kind, Rho, Source};
use sumsq_energy_testing::dual::Dual;
use sumsq_energy_testing::evaluate::{Place, evaluate};
use sumsq_energy_testing::reads::Access;

/// Random surroundings tried.
const TRIES: u64 = 24;

/// Tells whether each read of each channel changes that channel in some surroundings.
pub fn is_alive(case: &Case, e: &Expr, rng: &mut Rng) -> bool {
    let seed = rng.bits();
    let mut dead: Vec<(usize, Access)> = Vec::new();
    for (c, reads) in case.reads(e).into_iter().enumerate() {
        dead.extend(reads.all.into_iter().map(|a| (c, a)));
    }
    for k in 0..TRIES {
        if dead.is_empty() {
            break;
        }
        let here = Anywhere { case, seed: seed.wrapping_add(k), other: None, known: RefCell::default() };
        let before = evaluate(case, e, &here);
        let mut changed: HashMap<Access, Vec<Dual>> = HashMap::new();
        dead.retain(|(c, access)| {
            let after = changed.entry(access.clone()).or_insert_with(|| {
                let other = Some(access.clone());
                evaluate(case, e, &Anywhere { case, seed: here.seed, other, known: RefCell::default() })
            });
            let (a, b) = (before[*c].value, after[*c].value);
            // NaN says nothing; a change that rounding could make is none.
            let change = (a - b).abs();
            change.is_nan() || change <= 1e-9 * (a.abs() + b.abs())
        });
    }
    dead.is_empty()
}

/// The same of all residuals, computed arrays and masks of a case: what shrinking leaves.
pub fn is_alive_everywhere(case: &Case) -> bool {
    let values = case.groups.iter().flat_map(|g| &g.values);
    let computed = case.computed.iter().map(|c| &c.value);
    let masks = case.excludes.iter().map(|(_, e)| e);
    let scales = case.groups.iter().filter_map(|g| match &g.loss.as_ref()?.rho {
        Rho::Scaled(_, scale) => Some(scale),
        _ => None,
    });
    values.chain(computed).chain(masks).chain(scales).all(|e| is_alive(case, e, &mut Rng::new(1)))
}

/// Random values for all that is read, one of them changed.
struct Anywhere<'a> {
    case: &'a Case,
    seed: u64,
    other: Option<Access>,
    known: RefCell<HashMap<String, f64>>,
}

impl Anywhere<'_> {
    fn random(&self, what: &str, salt: u64, whole: bool) -> f64 {
        *self.known.borrow_mut().entry(format!("{what}{salt}")).or_insert_with(|| {
            let text = what
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
            let mut rng = Rng::new(text ^ self.seed.wrapping_mul(0x9e37_79b9) ^ (salt << 40));
            if whole { rng.below(4) as f64 } else { rng.range(-2000, 2000) as f64 / 1024.0 }
        })
    }
}

impl Place for Anywhere<'_> {
    fn read(&self, source: Source, at: &At, channel: usize) -> Dual {
        let access = Access { source, at: at.clone(), channel };
        let whole = match source {
            Source::Field(f) => match self.case.fields[f].kind {
                Kind::Array(ty) => !["opt_float", "float", "double"].contains(&ty),
                _ => false,
            },
            Source::Computed(_) => false,
        };
        let salt = u64::from(self.other.as_ref() == Some(&access));
        Dual::number(self.random(&format!("{access:?}"), salt, whole))
    }

    fn tap(&self, field: usize, channel: usize, at: &[i64]) -> f64 {
        self.random(&format!("{field} {channel} {at:?}"), 0, false)
    }

    fn index(&self, dim: usize) -> f64 {
        self.random(&format!("index {dim}"), 0, true)
    }

    fn inside(&self, lo: &[i64], hi: &[i64]) -> bool {
        // The domain around the element: along half of the ways it ends after at most three more. What one box says of another holds.
        let rest = |dim: usize, way: &str| match self.random(&format!("near {dim} {way}"), 0, true) < 2.0 {
            true => self.random(&format!("rest {dim} {way}"), 0, true) as i64,
            false => i64::MAX,
        };
        let before = lo.iter().enumerate().all(|(dim, &o)| o.saturating_neg() <= rest(dim, "before"));
        before && hi.iter().enumerate().all(|(dim, &o)| o <= rest(dim, "behind"))
    }
}

#[test]
fn boxes_lie_in_one_domain() {
    let case = crate::generate::case(1);
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let here = Anywhere { case: &case, seed, other: None, known: RefCell::default() };
        let [wide, narrow] = [1, 0].map(|k| here.inside(&[-1, -k], &[k, k]));
        assert!(narrow || !wide, "seed {seed}");
        assert!(here.inside(&[0, 0], &[0, 0]));
        seen.insert([wide, narrow]);
    }
    assert_eq!(seen.len(), 3);
}
