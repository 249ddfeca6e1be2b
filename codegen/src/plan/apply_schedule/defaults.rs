//! The loops that a Func has without directives.

use crate::analysis::algebra::build;
use crate::analysis::associative::Reduction;
use crate::expr::Expr;
use crate::func::{Func, Pipeline, RVar, Update, Var};
use crate::plan::plans::{Bounded, Dim, FuncPlan, Stage};
use crate::plan::validate::is_var;
use crate::schedule::StageId;

/// The loops that a Func has without directives.
pub(super) fn plan_func(p: &Pipeline, f: &Func) -> FuncPlan {
    let mut stages = vec![pure_stage(f)];
    stages.extend(f.updates.iter().enumerate().map(|(k, u)| update_stage(f, k + 1, u)));
    let output = p.outputs.iter().find(|o| o.func == f.name).cloned();
    FuncPlan { output, ..FuncPlan::new(f.clone(), stages) }
}

/// Pure definition: the first variable is innermost.
pub(crate) fn pure_stage(f: &Func) -> Stage {
    let id = StageId { func: f.name.clone(), stage: 0 };
    Stage {
        dims: f.vars.iter().map(|v| Dim::pure(v.name())).collect(),
        coords: f.vars.iter().map(|v| v.name().clone()).collect(),
        ..Stage::new(id, f.vars.iter().map(Var::expr).collect(), f.values.clone())
    }
}

/// Update: reduction variables innermost, first fastest, then the pure variables that stand for themselves.
fn update_stage(f: &Func, stage: usize, u: &Update) -> Stage {
    let pure = |(v, a): (&Var, &Expr)| is_var(a, v.name()).then(|| Dim::pure(v.name()));
    let rvars: Vec<Bounded> = u.rdom.vars.iter().map(bounded).collect();
    let pure_dims: Vec<Dim> = f.vars.iter().zip(&u.args).filter_map(pure).collect();
    let coords = match rvars.is_empty() {
        true => pure_dims.iter().map(|d| d.name.clone()).collect(),
        false => rvars.iter().map(|r| r.name.clone()).collect(),
    };
    let id = StageId { func: f.name.clone(), stage };
    Stage {
        predicate: u.rdom.predicate.clone(),
        dims: rvars.iter().map(|r| Dim::reduction(&r.name)).chain(pure_dims).collect(),
        rvars,
        coords,
        reduction: Reduction::of(&f.name, &u.args, &u.values, u.rdom.predicate.as_ref()),
        ..Stage::new(id, u.args.clone(), u.values.clone())
    }
}

fn bounded(r: &RVar) -> Bounded {
    let max = build::offset(&build::add(&r.min, &r.extent), -1);
    Bounded { name: r.name.clone(), min: r.min.clone(), max }
}
