//! Values of an outer loop's lanes among the lanes of loops inside.

use crate::analysis::algebra::rebuild::splat;
use crate::expr::walk::{Memo, loads, rewrite};
use crate::expr::{Expr, ExprKind};
use crate::types::Type;

/// `e` in `lanes`, a multiple of its own: each lane stands for as many neighbours.
pub(super) fn spread(e: Expr, lanes: u16) -> Expr {
    match e.ty().lanes {
        1 => splat(e, lanes),
        own if own == lanes => e,
        own => repeated(&e, lanes / own),
    }
}

/// Coordinates stay functions of the lane number, which are seen to be dense. What is read is read once, and repeated before it is converted.
fn repeated(e: &Expr, times: u16) -> Expr {
    let wide = |e: &Expr| e.ty().with_lanes(e.ty().lanes * times);
    if loads(e) {
        return match e.kind() {
            ExprKind::Cast(a) => Expr::new(ExprKind::Cast(repeated(a, times)), wide(e)),
            _ => Expr::interleave(vec![e.clone(); times.into()]),
        };
    }
    rewrite(e, &mut Memo::default(), &mut |old, new| match old.kind() {
        _ if old.ty().lanes == 1 => new,
        ExprKind::Int(_) | ExprKind::Float(_) => Expr::new(old.kind().clone(), wide(old)),
        ExprKind::Broadcast(a) => splat(a.clone(), wide(old).lanes),
        ExprKind::Ramp(first, step) => {
            let (ty, int) = (wide(old), |v| Expr::int(Type::of(old.ty().scalar), v));
            let lane = Expr::new(ExprKind::Ramp(int(0), int(1)), ty);
            let all = |e: &Expr| splat(e.clone(), ty.lanes);
            all(first) + all(step) * (lane / all(&int(times.into())))
        }
        ExprKind::Var(_) | ExprKind::VectorReduce(..) | ExprKind::Interleave(_) | ExprKind::Concat(_) => {
            Expr::interleave(vec![old.clone(); times.into()])
        }
        _ => new,
    })
}
