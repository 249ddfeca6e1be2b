//! Updates that replace elements: overwriting, minima and maxima with where they are, painting by depth.
//!
//! The adjoint of an element goes to the iteration that wrote it last, which is known where every element is written once, and else kept by
//! a Func that runs the update again and remembers the number of that iteration.

use crate::analysis::algebra::build::{add, mul, sub};
use crate::error::Error;
use crate::expr::{Expr, Name};
use crate::func::{Func, RDom, Var};
use crate::gradient::adjoints::{Reverse, reread};
use crate::gradient::reverse::selected;
use crate::gradient::terms::{Adjoint, fresh};
use crate::gradient::updates::{Replacement, Site};
use crate::types::{ScalarType, Type};

impl Reverse<'_> {
    /// See the module's description; as [`Reverse::update`].
    pub(super) fn replace(&mut self, site: &Site, r: &Replacement, d: Adjoint) -> Result<Adjoint, Error> {
        let by: Name = site.name.as_str().into();
        let once = match &r.cond {
            None => self.written(&by, &site.space, &site.u.args, &site.f.vars),
            Some(_) => None,
        };
        let here = |j: usize| d.at(&site.u.args, j);
        let (seeds, kept): (Vec<(Expr, Expr)>, Option<Expr>) = match once {
            Some(written) => (
                r.by.iter().filter_map(|(j, t)| Some((t.clone(), here(*j)?))).collect(),
                Some(written.not_()),
            ),
            None => {
                let last = self.last_writer(site, r)?;
                let index = last.values.len() - 1;
                let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
                let stays = last.at(&site.u.args, index).eq_(self.number(site, last.types()[index])?);
                let stays = Some(stays);
                let seed = |(j, t): &(usize, Expr)| Some((t.clone(), selected(&stays, here(*j)?)));
                (r.by.iter().filter_map(seed).collect(), Some(last.at(&own, index).lt(0)))
            }
        };
        self.spread(&by, &site.space, seeds)?;
        let name = fresh(self.p, &format!("d_{}_before{}", site.f.name, site.k));
        let is_replaced = |k: usize| r.by.iter().any(|(j, _)| *j == k);
        let next = d.map(name, |k, old| match is_replaced(k) {
            true => selected(&kept, old),
            false => old,
        });
        Ok(self.keep(next))
    }

    /// The Func whose last element is the number of the iteration that wrote an element last, -1 if none did.
    fn last_writer(&mut self, site: &Site, r: &Replacement) -> Result<Func, Error> {
        let name = fresh(self.p, &format!("{}_last", site.name));
        let before = self.before(site.f, site.k);
        let own: Vec<Expr> = site.f.vars.iter().map(Var::expr).collect();
        // Its own values only where a condition needs them.
        let n = if r.cond.is_some() { site.f.values.len() } else { 0 };
        let here =
            |e: &Expr| reread(e, &site.f.name, &mut |args, k, ty| Expr::call(name.clone(), ty, args, k));
        let mut start: Vec<Expr> = (0..n).map(|k| before.at(&own, k)).collect();
        let ty = self.counter(site)?;
        start.push(Expr::int(Type::of(ty), -1));
        let mut values: Vec<Expr> = site.u.values[..n].iter().map(here).collect();
        let number = self.number(site, ty)?;
        let old = Expr::call(name.clone(), ty, site.u.args.clone(), n);
        values.push(match &r.cond {
            Some(c) => Expr::select(here(c), number, old),
            None => number,
        });
        let rdom: RDom = site.u.rdom.clone();
        let f = Func::new(name.clone(), &site.f.vars, start).update(site.u.args.clone(), values, rdom);
        self.support.insert(name, self.support[&site.f.name].clone());
        Ok(self.p.func(f))
    }

    /// A type that counts the iterations of `site`.
    fn counter(&self, site: &Site) -> Result<ScalarType, Error> {
        let hull = self.hull(&site.f.name, &site.space)?;
        let mut extents = site.u.rdom.vars.iter().map(|r| hull[&r.name].extent().as_int());
        let n = extents.try_fold(1i64, |n, e| n.checked_mul(e?.max(0)));
        Ok(match n {
            Some(n) if n <= i64::from(i32::MAX) => ScalarType::I32,
            _ => ScalarType::I64,
        })
    }

    /// The number of an iteration of the reduction variables of `site`, from 0, in their order, as a `ty`.
    pub(super) fn number(&self, site: &Site, ty: ScalarType) -> Result<Expr, Error> {
        let hull = self.hull(&site.f.name, &site.space)?;
        let as_ty = |e: Expr| if e.ty() == Type::of(ty) { e } else { e.cast(ty) };
        let (mut sum, mut stride) = (Expr::int(Type::of(ty), 0), Expr::int(Type::of(ty), 1));
        for r in &site.u.rdom.vars {
            let range = &hull[&r.name];
            let steps = sub(&Expr::var(r.name.clone()), &range.min);
            sum = add(&sum, &mul(&as_ty(steps), &stride));
            stride = mul(&stride, &as_ty(range.extent()));
        }
        Ok(sum)
    }
}
