//! Boundary conditions: what lies outside of a domain, as a Func over the whole grid.
//!
//! Each takes a name, what it continues (an [`Input`](crate::Input) or a [`Func`]) and a domain: `(min, extent)` per dimension,
//! none for a dimension that is left alone; `Input::domain` is that of an input. The Func's variables are `_0`, `_1`, ...
//! The source is read inside of its domain only. That a point lies there is marked `likely`: the interior is computed
//! without any of this.
//!
//! Outside of `min .. min + extent`, on one dimension of `abcd`:
//!
//! | condition | |
//! |---|---|
//! | [`constant_exterior`] | `kkkk abcd kkkk` |
//! | [`repeat_edge`] | `aaaa abcd dddd` |
//! | [`repeat_image`] | `abcd abcd abcd` |
//! | [`mirror_image`] | `dcba abcd dcba` |
//! | [`mirror_interior`] | `adcb abcd cbab` |

use crate::expr::{Expr, Name};
use crate::func::{Func, Source, Var};

/// The given values outside, one per tuple element.
pub fn constant_exterior(
    name: impl Into<Name>,
    of: &impl Source,
    domain: &[Option<(Expr, Expr)>],
    outside: &[Expr],
) -> Func {
    let (vars, at) = coordinates(of);
    let inside =
        at.iter().zip(domain).filter_map(|(x, d)| d.as_ref().map(|(min, extent)| within(x, min, extent)));
    let inside = inside.reduce(|a, b| a.and(b)).map(|e| e.likely());
    let near: Vec<Expr> =
        at.iter().zip(domain).map(|(x, d)| d.as_ref().map_or(x.clone(), |d| clamp(x, d))).collect();
    let values = outside.iter().enumerate().map(|(k, constant)| match &inside {
        Some(inside) => Expr::select(inside, of.at(&near, k), constant),
        None => of.at(&near, k),
    });
    Func::new(name, &vars, values.collect())
}

/// The nearest value inside.
pub fn repeat_edge(name: impl Into<Name>, of: &impl Source, domain: &[Option<(Expr, Expr)>]) -> Func {
    continued(name, of, domain, |x, (min, extent)| clamp(x, &(min.clone(), extent.clone())))
}

/// The domain, again and again.
pub fn repeat_image(name: impl Into<Name>, of: &impl Source, domain: &[Option<(Expr, Expr)>]) -> Func {
    continued(name, of, domain, |x, (min, extent)| (x - min).modulo(extent) + min)
}

/// The domain and its mirror image in turn; the value at the edge occurs twice.
pub fn mirror_image(name: impl Into<Name>, of: &impl Source, domain: &[Option<(Expr, Expr)>]) -> Func {
    continued(name, of, domain, |x, (min, extent)| {
        let period = extent * &Expr::from(2);
        let there = (x - min).modulo(&period);
        there.min(period - 1 - &there) + min
    })
}

/// The domain and its mirror image in turn; the value at the edge occurs once.
pub fn mirror_interior(name: impl Into<Name>, of: &impl Source, domain: &[Option<(Expr, Expr)>]) -> Func {
    continued(name, of, domain, |x, (min, extent)| {
        let period = (extent - &Expr::from(1)) * 2;
        let there = (x - min).modulo(&period);
        there.min(period - &there) + min
    })
}

/// `of` at the coordinates `inner` gives, which are clamped: what the condition makes of a coordinate is not understood by
/// bounds inference.
fn continued(
    name: impl Into<Name>,
    of: &impl Source,
    domain: &[Option<(Expr, Expr)>],
    inner: impl Fn(&Expr, (&Expr, &Expr)) -> Expr,
) -> Func {
    let (vars, at) = coordinates(of);
    let coordinate = |(x, d): (&Expr, &Option<(Expr, Expr)>)| match d {
        None => x.clone(),
        Some((min, extent)) => {
            let inside = within(x, min, extent).likely();
            clamp(&Expr::select(inside, x, inner(x, (min, extent))), &(min.clone(), extent.clone()))
        }
    };
    let at: Vec<Expr> = at.iter().zip(domain).map(coordinate).collect();
    let values = (0..of.types().len()).map(|k| of.at(&at, k)).collect();
    Func::new(name, &vars, values)
}

fn coordinates(of: &impl Source) -> (Vec<Var>, Vec<Expr>) {
    let vars: Vec<Var> = (0..of.dims()).map(|d| Var::new(format!("_{d}"))).collect();
    let at = vars.iter().map(Var::expr).collect();
    (vars, at)
}

fn within(x: &Expr, min: &Expr, extent: &Expr) -> Expr {
    min.le(x).and(x.lt(min + extent))
}

fn clamp(x: &Expr, (min, extent): &(Expr, Expr)) -> Expr {
    x.max(min).min(min + extent - 1)
}
