//! Expressions of all operators and types, read back in a pipeline that declares their names.

use crate::expr::{BinaryOp, Part, UnaryOp};
use crate::func::{Input, Pipeline};
use crate::plan::apply_schedule::expressions::typed;
use crate::schedule::text::*;
use proptest::prelude::*;

const TYPES: [ScalarType; 12] = {
    use ScalarType::*;
    [I32, F32, Bool, I8, I16, I64, U8, U16, U32, U64, F16, F64]
};

/// Makes well-typed expressions out of any numbers.
struct Maker<'c> {
    choices: &'c [u32],
    next: usize,
    /// Expressions made before.
    pool: Vec<Expr>,
}

impl Maker<'_> {
    /// One of `n`.
    fn choose(&mut self, n: usize) -> usize {
        self.next += 1;
        self.choices[self.next % self.choices.len()] as usize % n
    }

    fn ty(&mut self) -> ScalarType {
        TYPES[self.choose(12)]
    }

    fn leaf(&mut self, ty: ScalarType) -> Expr {
        match self.choose(4) {
            0 => Expr::param(format!("p_{}", ty.name()), ty),
            1 => Expr::call(format!("in_{}", ty.name()), ty, vec![Expr::param("p_i32", ScalarType::I32)], 1),
            2 if ty == ScalarType::I32 => Expr::part("in_u8", Part::Extent(0)),
            _ => {
                let bits = self.choose(usize::MAX) as i64 * 0x1_0003 - 5_000_000_000;
                let value = [0.0, -0.0, 1.0, -2.5, 1e-7, 1e30, f64::INFINITY][self.choose(7)];
                if ty.is_float() { Expr::float(ty, value) } else { Expr::int(ty, bits) }
            }
        }
    }

    fn make(&mut self, ty: ScalarType, depth: usize) -> Expr {
        use BinaryOp::*;
        let again = self.pool.iter().position(|e| e.ty().scalar == ty);
        let e = match (depth, self.choose(9), again) {
            (0, ..) => self.leaf(ty),
            (_, 0, Some(i)) => self.pool.swap_remove(i),
            (_, 1, _) => {
                let from = TYPES.into_iter().filter(|t| *t != ty).nth(self.choose(11)).unwrap_or(ty);
                self.make(from, depth - 1).cast(ty)
            }
            (_, 2, _) if ty != ScalarType::Bool => {
                let same = |t: &ScalarType| t.bytes() == ty.bytes() && *t != ScalarType::Bool;
                let from: Vec<ScalarType> = TYPES.into_iter().filter(same).collect();
                let from = from[self.choose(from.len())];
                self.make(from, depth - 1).reinterpret(ty)
            }
            (_, 3, _) => {
                let c = self.make(ScalarType::Bool, depth - 1);
                Expr::select(c, self.make(ty, depth - 1), self.make(ty, depth - 1))
            }
            (_, 4, _) if ty.is_float() => {
                Expr::fma(self.make(ty, depth - 1), self.make(ty, depth - 1), self.make(ty, depth - 1))
            }
            (_, 5 | 6, _) => self.unary(ty, depth),
            _ if ty == ScalarType::Bool && self.choose(2) == 0 => {
                let of = self.ty();
                let op = [Eq, Ne, Lt, Le, Gt, Ge][self.choose(6)];
                Expr::binary(op, self.make(of, depth - 1), self.make(of, depth - 1))
            }
            _ => {
                let ops: &[BinaryOp] = match ty {
                    ScalarType::Bool => &[And, Or, Xor, Min, Max],
                    _ if ty.is_float() => &[Add, Sub, Mul, Div, Mod, Min, Max, Pow, Atan2],
                    _ => &[Add, Sub, Mul, Div, Mod, Min, Max, And, Or, Xor, Shl, Shr],
                };
                let op = ops[self.choose(ops.len())];
                Expr::binary(op, self.make(ty, depth - 1), self.make(ty, depth - 1))
            }
        };
        let e = if self.choose(6) == 0 { e.strict_float() } else { e };
        self.pool.push(e.clone());
        e
    }

    fn unary(&mut self, ty: ScalarType, depth: usize) -> Expr {
        use UnaryOp::*;
        let ops: &[UnaryOp] = match ty {
            ScalarType::Bool => &[Not],
            _ if ty.is_float() => &[
                Neg, Abs, Sqrt, Floor, Ceil, Round, Trunc, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh,
                Asinh, Acosh, Atanh, Exp, Log, Log10,
            ],
            _ => &[Neg, Abs, Not, Floor, Ceil, Round, Trunc],
        };
        if ty == ScalarType::Bool && self.choose(2) == 0 {
            let of = TYPES.into_iter().filter(|t| *t != ScalarType::Bool).nth(self.choose(11));
            let a = self.make(of.unwrap_or(ScalarType::F32), depth - 1);
            return if self.choose(3) == 0 { a.is_nan() } else { a.lt(a.clone()).likely() };
        }
        let op = ops[self.choose(ops.len())];
        self.make(ty, depth - 1).unary(op)
    }
}

/// Declares what the leaves name.
fn pipeline() -> Pipeline {
    let mut p = Pipeline::new("names");
    for ty in TYPES {
        p.param(format!("p_{}", ty.name()), ty);
        p.input(Input::new(format!("in_{}", ty.name()), &[ty, ty], 1));
    }
    p
}

/// Printed, read, and printed again; and what it is where the names are declared.
fn read_back(e: &Expr) -> Result<Expr, String> {
    let text = Directive::NonTemporal(e.clone()).to_string();
    let read = Schedule::parse(&format!("f: {text}")).map_err(|e| format!("{e}\n{text}"))?;
    let [d] = &read.stages[&StageId { func: "f".into(), stage: 0 }][..] else { return Err(text) };
    if d.to_string() != text {
        return Err(format!("printed again:\n{d}\n{text}"));
    }
    match typed(&pipeline(), d) {
        Directive::NonTemporal(e) => Ok(e),
        d => Err(d.to_string()),
    }
}

proptest! {
    #[test]
    fn reading_inverts_printing(choices in prop::collection::vec(any::<u32>(), 8..120), depth in 0usize..7) {
        let mut maker = Maker { choices: &choices, next: 0, pool: vec![] };
        let ty = maker.ty();
        let e = maker.make(ty, depth);
        prop_assert_eq!(e.type_fault(), None);
        let read = read_back(&e).map_err(TestCaseError::fail)?;
        prop_assert!(read == e, "{} became {}", e, read);
    }

    /// Trees of more than any memory's leaves.
    #[test]
    fn sharing_is_read_back(choices in prop::collection::vec(any::<u32>(), 8..60)) {
        let mut maker = Maker { choices: &choices, next: 0, pool: vec![] };
        let mut e = maker.make(ScalarType::F32, 3);
        for i in 0..60 {
            e = if i % 7 == 0 { e.clone() * maker.leaf(ScalarType::F32) + &e } else { &e + &e };
        }
        let read = read_back(&e).map_err(TestCaseError::fail)?;
        prop_assert!(read == e, "{} became {}", e, read);
    }
}
