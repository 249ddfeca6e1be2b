//! Updates that write each element once, of elements that were written before: prefix sums, recursive filters, dynamic programs.
//!
//! What such an update reads of itself is never overwritten, so that it can be read again when it is over. Its adjoint runs over the same
//! points in reverse, in place: when it gets to a point, all that later points add to the adjoint there has been added.

use crate::analysis::algebra::build::sub;
use crate::analysis::algebra::forms::Polys;
use crate::analysis::algebra::poly::Mono;
use crate::error::Error;
use crate::expr::walk::{substitute, uses_var, variables};
use crate::expr::{Expr, Name};
use crate::func::{Func, RDom, RVar};
use crate::gradient::adjoints::{Reverse, reread};
use crate::gradient::reverse::{Read, selected};
use crate::gradient::terms::{Adjoint, fresh};
use crate::gradient::tidy::tidy;
use crate::gradient::updates::Site;
use crate::plan::validate::is_var;
use rustc_hash::FxHashMap;

impl Reverse<'_> {
    /// See the module's description; as [`Reverse::update`]. None if the update is not of this form.
    pub(super) fn scan(&mut self, site: &Site, d: &Adjoint) -> Result<Option<Adjoint>, Error> {
        let by: Name = site.name.as_str().into();
        let written = self.written(&by, &site.space, &site.u.args, &site.f.vars);
        let Some(written) = written.filter(|_| site.is_placed_freely() && reads_earlier(site)) else {
            return Ok(None);
        };
        let behind = self.before(site.f, site.k + 1);
        let final_values = |e: &Expr| {
            reread(e, &site.f.name, &mut |args, k, ty| Expr::call(behind.name.clone(), ty, args, k))
        };
        let name = fresh(self.p, &format!("d_{}_scan", site.name));
        let start = d.map(name, |_, old| old);
        let seeds: Vec<(Expr, Expr)> =
            site.floats().filter_map(|(j, v)| Some((v.clone(), start.at(&site.u.args, j)?))).collect();
        let own = self.reads(&seeds, &[site.f.name.clone()].into_iter().collect());
        let scanned = match own.is_empty() {
            true => start,
            false => reversed(site, &start, &own, &final_values),
        };
        let scanned = self.keep(scanned);
        let seeds = seeds.iter().map(|(v, a)| (final_values(v), a.clone())).collect();
        self.spread(&by, &site.space, seeds)?;
        let name = fresh(self.p, &format!("d_{}_before{}", site.f.name, site.k));
        let kept = Some(written.not_());
        let next = scanned.map(name, |_, old| selected(&kept, old));
        Ok(Some(self.keep(next)))
    }
}

/// Are all of the update's reads of itself at elements that an earlier iteration wrote, or that none writes?
fn reads_earlier(site: &Site) -> bool {
    let mut all = true;
    for v in &site.u.values {
        crate::expr::walk::visit(v, &mut |e| {
            if let crate::ExprKind::Call { name, args, .. } = e.kind()
                && *name == site.f.name
            {
                all &= is_earlier(site, args);
            }
            true
        });
    }
    all
}

/// Steps back, of the reduction variables from the outermost in, are positive first.
fn is_earlier(site: &Site, read: &[Expr]) -> bool {
    let mut steps: FxHashMap<&Name, i64> = FxHashMap::default();
    let mut apart = false;
    for ((a, b), v) in site.u.args.iter().zip(read).zip(&site.f.vars) {
        if is_var(a, v.name()) {
            continue;
        }
        let Some(step) = sub(a, b).as_int() else { return false };
        let moves = variables(a);
        let mut own = site.u.rdom.vars.iter().filter(|r| moves.contains(&r.name));
        match (own.next(), own.next()) {
            (None, _) => apart |= step != 0,
            (Some(r), None) => {
                let Some(stride) = stride(a, &r.name) else { return false };
                // Between the elements that are written, and off the diagonal, nothing is.
                let whole = step / stride;
                apart |= step % stride != 0 || *steps.entry(&r.name).or_insert(whole) != whole;
            }
            _ => return false,
        }
    }
    let first = site.u.rdom.vars.iter().rev().filter_map(|r| steps.get(&r.name)).find(|s| **s != 0);
    apart || first.is_some_and(|s| *s > 0)
}

/// The c of which `e` is c r plus what r does not change; none if it is no such sum.
fn stride(e: &Expr, r: &Name) -> Option<i64> {
    let (form, own) = (Polys::default().of(e), Mono::Atom(Expr::var(r.clone())));
    let mut others = form.terms.iter().filter(|(m, _)| *m != own).flat_map(|(m, _)| m.iter());
    let c = form.coef(&own);
    (c != 0 && !others.any(|e| uses_var(e, r))).then_some(c)
}

/// The scan that adds the adjoints of the reads `own` to those at `start`, last iteration first.
fn reversed(site: &Site, start: &Adjoint, own: &[Read], final_values: &impl Fn(&Expr) -> Expr) -> Adjoint {
    let mut back: FxHashMap<Name, Expr> = FxHashMap::default();
    for r in &site.u.rdom.vars {
        let v = Expr::var(r.name.clone());
        back.insert(r.name.clone(), tidy(&(&r.min * 2 + &r.extent - 1 - v)));
    }
    let at_point = |e: &Expr| tidy(&substitute(&final_values(e), &back));
    let mut places: Vec<&[Expr]> = vec![];
    for read in own {
        if !places.contains(&&read.args[..]) {
            places.push(&read.args);
        }
    }
    // One iteration adds at several places, one after the other.
    let mut vars = site.u.rdom.vars.clone();
    let mut name = String::from("place");
    while vars.iter().any(|r| *r.name == *name) || site.f.vars.iter().any(|v| **v.name() == *name) {
        name.push('_');
    }
    let place = Expr::var(&*name);
    if places.len() > 1 {
        let extent = Expr::from(places.len() as i32);
        vars.insert(0, RVar { name: name.into(), min: Expr::from(0), extent });
    }
    let choose = |all: Vec<Expr>| {
        let last = all.len() - 1;
        let folded = all.into_iter().enumerate().rev().reduce(|(_, rest), (i, e)| match rest == e {
            true => (i, e),
            false => (i, Expr::select(place.eq_(i as i32), e, rest)),
        });
        folded.map(|(_, e)| e).unwrap_or_else(|| unreachable!("choose: {last} + 1 places"))
    };
    let args: Vec<Expr> =
        (0..site.f.vars.len()).map(|d| choose(places.iter().map(|p| at_point(&p[d])).collect())).collect();
    let mut values = vec![];
    for (k, v) in site.f.values.iter().enumerate() {
        let Some(old) = start.at(&args, k) else { continue };
        let added = places.iter().map(|p| {
            let here = own.iter().filter(|r| r.value == k && r.args == **p);
            let parts = here.map(|r| at_point(&selected(&r.cond, r.adjoint.clone())));
            parts.reduce(|a, b| a + b).unwrap_or_else(|| Expr::constant(v.ty(), 0.0))
        });
        values.push(old + choose(added.collect()));
    }
    let predicate = site.u.rdom.predicate.as_ref().map(at_point);
    let f: Func = start.func.clone().update(args, values, RDom { vars, predicate });
    Adjoint::new(f, &site.f.types())
}
