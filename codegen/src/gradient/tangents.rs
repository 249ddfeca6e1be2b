//! Forward mode: the change of everything that some inputs and parameters change.

use crate::error::Error;
use crate::expr::walk::postorder;
use crate::expr::{Expr, ExprKind, Name};
use crate::func::{Func, Pipeline, RDom, Var};
use crate::gradient::activity::active;
use crate::gradient::adjoints::{reads_func, reread};
use crate::gradient::slopes::{along, arms};
use crate::gradient::support::consumers_first;
use crate::gradient::terms::{Adjoint, Target, fresh};
use crate::plan::validate::{error, validate};
use indexmap::IndexMap;
use rustc_hash::FxHashMap;

/// The tangents that [`propagate_tangents`] added to a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Tangents {
    of: IndexMap<Name, Func>,
}

impl Tangents {
    /// The tangent of a Func: a Func over the same coordinates with one element for each float element of it. None if nothing that
    /// changes reaches it.
    pub fn of(&self, name: &str) -> Option<&Func> {
        self.of.get(name)
    }

    /// Names of Funcs that have a tangent, producers first.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.of.keys()
    }
}

/// Adds to `p` the tangents of all Funcs that depend on the names in `directions`: J v, where v is what stands beside them, a Func or an
/// input of the same dimensions and float types, or beside a float parameter another parameter.
///
/// The tangent of `f` is called `t_f`. Without directives tangents are computed at root. Outputs stay as they
/// are.
///
/// # Errors
/// A pipeline that is refused anyway; names that are not there or are integers; a direction of other dimensions or types.
pub fn propagate_tangents(p: &mut Pipeline, directions: &[(&str, &str)]) -> Result<Tangents, Error> {
    validate(p)?;
    let mut t = Forward { directions: FxHashMap::default(), made: FxHashMap::default() };
    for (name, by) in directions {
        let (name, by) = (Name::from(*name), Name::from(*by));
        let of =
            Target::find(p, &name).ok_or_else(|| error(p, format!("there is no {name} to derive for")))?;
        let given = Target::find(p, &by)
            .ok_or_else(|| error(p, format!("there is no {by}, the direction of {name}")))?;
        let floats: Vec<_> = of.types.iter().copied().filter(|t| t.is_float()).collect();
        if floats.is_empty() {
            let why = format!("{name} is of integers, which have no derivative: derive for floats");
            return Err(error(p, why));
        }
        let is_param = p.params.contains_key(&name);
        if floats != given.types
            || of.vars.len() != given.vars.len()
            || is_param != p.params.contains_key(&by)
        {
            let why = format!(
                "{by} is no direction of {name}: it needs its dimensions and the types of its floats"
            );
            return Err(error(p, why));
        }
        if let Some((other, _)) = t.directions.get(&name) {
            let message = format!("{name} has two directions, {other} and {by}: add them up in a Func");
            return Err(error(p, message));
        }
        t.directions.insert(name, (by, of));
    }
    let active = active(p, t.directions.keys().cloned());
    let mut order = consumers_first(p, p.funcs.keys().cloned());
    order.reverse();
    let mut found = Tangents::default();
    for name in order.into_iter().filter(|n| active.contains(n)) {
        if t.directions.contains_key(&name) {
            continue;
        }
        let f = p.funcs[&name].clone();
        let d = t.func(p, &f);
        p.stored.insert(d.func.name.clone());
        found.of.insert(name.clone(), d.func.clone());
        t.made.insert(name, d);
    }
    Ok(found)
}

struct Forward {
    directions: FxHashMap<Name, (Name, Target)>,
    made: FxHashMap<Name, Adjoint>,
}

impl Forward {
    /// The tangent of a call or parameter; none if it does not change.
    fn leaf(&self, e: &Expr) -> Option<Expr> {
        match e.kind() {
            ExprKind::Param(param) => {
                let (by, _) = self.directions.get(param.name()?)?;
                Some(Expr::param(by.clone(), e.ty()))
            }
            ExprKind::Call { name, args, value } if e.ty().scalar.is_float() => {
                match self.directions.get(name) {
                    Some((by, of)) => {
                        let element = of.types[..*value].iter().filter(|t| t.is_float()).count();
                        Some(Expr::call(by.clone(), e.ty().scalar, args.clone(), element))
                    }
                    None => self.made.get(name)?.at(args, *value),
                }
            }
            _ => None,
        }
    }

    /// The change of an expression; none if it is always 0.
    fn of(&self, root: &Expr) -> Option<Expr> {
        let mut known: FxHashMap<usize, Expr> = FxHashMap::default();
        for e in postorder(&[root]) {
            if !e.ty().scalar.is_float() {
                continue;
            }
            let change = match e.kind() {
                ExprKind::Call { .. } | ExprKind::Param(_) => self.leaf(e),
                _ => change(e, &known),
            };
            change.and_then(|c| known.insert(e.id(), c));
        }
        known.remove(&root.id())
    }

    /// Defines the tangent of `f`.
    fn func(&mut self, p: &mut Pipeline, f: &Func) -> Adjoint {
        let name = fresh(p, &format!("t_{}", f.name));
        let target = Target { vars: f.vars.clone(), types: f.types() };
        let alone = self.tangent(f, Func::new(name.clone(), &f.vars, vec![]), 0);
        let exprs =
            alone.updates.iter().flat_map(|u| u.args.iter().chain(&u.values).chain(&u.rdom.predicate));
        let needs_values = exprs.into_iter().any(|e| reads_func(e, &f.name));
        if !needs_values {
            return Adjoint::new(p.func(alone), &target.types);
        }
        // The values as they were when the update read them: both together.
        let joint = Func::new(fresh(p, &format!("{}_and_{name}", f.name)), &f.vars, f.values.clone());
        let n = f.values.len();
        let joint = self.tangent(f, joint, n);
        let joint = p.func(joint);
        let own: Vec<Expr> = f.vars.iter().map(Var::expr).collect();
        let values = (n..joint.values.len()).map(|k| joint.at(&own, k)).collect();
        Adjoint::new(p.func(Func::new(name, &f.vars, values)), &target.types)
    }

    /// `d`, which has the first `n` values of `f` already, with the tangents of the others behind them, updates too.
    fn tangent(&mut self, f: &Func, mut d: Func, n: usize) -> Func {
        let zero = |e: &Expr| Expr::constant(e.ty(), 0.0);
        let floats = |values: &[Expr]| -> Vec<Expr> {
            values
                .iter()
                .filter(|v| v.ty().scalar.is_float())
                .map(|v| self.of(v).unwrap_or_else(|| zero(v)))
                .collect()
        };
        d.values.extend(floats(&f.values));
        // Element k of the tangent is n + k of `d`.
        let types: Vec<crate::ScalarType> = f.types();
        let slots = d.values.iter().map(|v| v.ty().scalar).collect::<Vec<_>>();
        let placeholder: Name = format!("{}.tangent", f.name).into();
        self.made.insert(
            f.name.clone(),
            Adjoint::new(Func::new(placeholder.clone(), &f.vars, d.values[n..].to_vec()), &types),
        );
        let here = |e: &Expr| {
            let e = reread(e, &placeholder, &mut |args, k, _| {
                Expr::call(d.name.clone(), slots[n + k], args, n + k)
            });
            match n {
                0 => e,
                _ => reread(&e, &f.name, &mut |args, k, ty| Expr::call(d.name.clone(), ty, args, k)),
            }
        };
        let mut updates = vec![];
        for u in &f.updates {
            let values = u.values[..n].iter().cloned();
            let changes = u.values.iter().filter(|v| v.ty().scalar.is_float());
            let changes = changes.map(|v| self.of(v).unwrap_or_else(|| zero(v)));
            let values: Vec<Expr> = values.chain(changes).collect();
            updates.push(crate::func::Update {
                args: u.args.iter().map(here).collect(),
                values: values.iter().map(here).collect(),
                rdom: RDom { predicate: u.rdom.predicate.as_ref().map(here), ..u.rdom.clone() },
            });
        }
        d.updates = updates;
        self.made.remove(&f.name);
        d
    }
}

/// The change of a node from those of its operands.
fn change(e: &Expr, known: &FxHashMap<usize, Expr>) -> Option<Expr> {
    let mut operands = vec![];
    e.for_each_child(|c| operands.push(c.clone()));
    if let Some((cond, [a, b])) = arms(e) {
        let zero = Expr::constant(e.ty(), 0.0);
        return match (known.get(&operands[a].id()), known.get(&operands[b].id())) {
            (None, None) => None,
            (x, y) => Some(Expr::select(cond, x.unwrap_or(&zero), y.unwrap_or(&zero))),
        };
    }
    let parts =
        operands.iter().enumerate().filter_map(|(k, c)| along(e, k, known.get(&c.id())?, e.ty().scalar));
    parts.reduce(|a, b| a + b)
}
