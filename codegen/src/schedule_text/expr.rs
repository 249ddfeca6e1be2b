//! Expressions in schedule text: precedence climbing, then typing from the leaves that say their type.

use super::lexer::{Lexer, Token};
use crate::expr::{BinaryOp, Expr, Name, UnaryOp};
use crate::types::{ScalarType, Type};

/// Deepest nesting that is read: bounds the recursion.
const MAX_DEPTH: usize = 200;

/// What a bare name stands for.
#[derive(Clone, Copy, PartialEq)]
pub enum NamesAre {
    /// Loop variables; names with a dot are parameters all the same.
    Variables,
    /// Run-time parameters.
    Parameters,
}

/// An expression before its names and calls have types.
enum Tree {
    Constant(Expr),
    Name(Name),
    Call(Name, Vec<Tree>, usize),
    Cast(ScalarType, Box<Tree>),
    Unary(UnaryOp, Box<Tree>),
    Likely(Box<Tree>),
    Binary(BinaryOp, Box<Tree>, Box<Tree>),
    Select(Box<[Tree; 3]>),
}

/// Reads an expression; one without a type of its own gets `hint`, or i32.
pub fn parse(lexer: &mut Lexer, names: NamesAre, hint: Option<ScalarType>) -> Result<Expr, String> {
    let tree = infix(lexer, 0, 0)?;
    build(&tree, hint.or(known(&tree)).unwrap_or(ScalarType::I32), names)
}

/// Strength and operator of an infix symbol; `true`: logical on bool.
fn operator(token: &Token) -> Option<(u8, BinaryOp)> {
    use BinaryOp::*;
    let Token::Symbol(symbol) = token else { return None };
    Some(match *symbol {
        "||" | "|" => (1, Or),
        "^" => (2, Xor),
        "&&" | "&" => (3, And),
        "==" => (4, Eq),
        "!=" => (4, Ne),
        "<" => (4, Lt),
        "<=" => (4, Le),
        ">" => (4, Gt),
        ">=" => (4, Ge),
        "<<" => (5, Shl),
        ">>" => (5, Shr),
        "+" => (6, Add),
        "-" => (6, Sub),
        "*" => (7, Mul),
        "/" => (7, Div),
        "%" => (7, Mod),
        _ => return None,
    })
}

/// Operands joined by operators of at least `strength`, which associate to the left.
fn infix(lexer: &mut Lexer, strength: u8, depth: usize) -> Result<Tree, String> {
    if depth > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH}"));
    }
    let mut left = prefix(lexer, depth)?;
    let mut length = 0;
    while let Some((s, op)) = operator(lexer.peek()).filter(|(s, _)| *s >= strength) {
        length += 1;
        if depth + length > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        lexer.advance();
        let right = infix(lexer, s + 1, depth + 1)?;
        left = Tree::Binary(op, left.into(), right.into());
    }
    Ok(left)
}

fn prefix(lexer: &mut Lexer, depth: usize) -> Result<Tree, String> {
    if lexer.accept("!") {
        return Ok(Tree::Unary(UnaryOp::Not, operand(lexer, depth)?.into()));
    }
    if lexer.accept("-") {
        if let Some(v) = number(lexer) {
            return constant(lexer, v, true);
        }
        return Ok(Tree::Unary(UnaryOp::Neg, operand(lexer, depth)?.into()));
    }
    if lexer.accept("(") {
        let tree = infix(lexer, 0, depth + 1)?;
        lexer.expect(")")?;
        return Ok(tree);
    }
    if let Some(v) = number(lexer) {
        return constant(lexer, v, false);
    }
    let name = lexer.name().map_err(|_| format!("expected an expression, not {}", lexer.describe()))?;
    match &*name {
        "true" | "false" => Ok(Tree::Constant(Expr::bool(&*name == "true"))),
        _ if lexer.accept("(") => call(lexer, name, depth),
        _ => Ok(Tree::Name(name)),
    }
}

/// The operand of a prefix operator.
fn operand(lexer: &mut Lexer, depth: usize) -> Result<Tree, String> {
    infix(lexer, 8, depth + 1)
}

/// A number as written, without its sign.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64, ScalarType),
}

/// Takes a number, if one comes next.
fn number(lexer: &mut Lexer) -> Option<Number> {
    let v = match lexer.peek() {
        Token::Int(v) => Number::Int(*v),
        Token::Float(v, ty) => Number::Float(*v, *ty),
        Token::Name(n) => match &**n {
            "inf" => Number::Float(f64::INFINITY, ScalarType::F64),
            "inff" => Number::Float(f64::INFINITY, ScalarType::F32),
            "NaN" => Number::Float(f64::NAN, ScalarType::F64),
            "NaNf" => Number::Float(f64::NAN, ScalarType::F32),
            _ => return None,
        },
        _ => return None,
    };
    lexer.advance();
    Some(v)
}

/// A number, with its type if that is not the one it has by the way it is written.
fn constant(lexer: &mut Lexer, v: Number, negative: bool) -> Result<Tree, String> {
    let written = match v {
        Number::Int(_) => ScalarType::I32,
        Number::Float(_, ty) => ty,
    };
    let ty = if lexer.accept(":") {
        let name = lexer.name()?;
        let ty = scalar_type(&name).filter(|t| *t != ScalarType::Bool);
        ty.ok_or_else(|| format!("`{name}` is not the type of a number"))?
    } else {
        written
    };
    let float = |v: f64| Ok(Tree::Constant(Expr::float(ty, if negative { -v } else { v })));
    match v {
        Number::Float(v, _) if ty.is_float() => float(v),
        Number::Int(v) if ty.is_float() => float(v as f64),
        Number::Float(..) => Err(format!("a number with a point is no {}", ty.name())),
        Number::Int(v) => {
            let v = if negative { -v } else { v };
            let bits =
                if ty == ScalarType::U64 { u64::try_from(v).map(|v| v as i64) } else { i64::try_from(v) };
            match bits {
                Ok(bits) if ty.wrap(bits) == bits => Ok(Tree::Constant(Expr::int(ty, bits))),
                _ => Err(format!("{v} does not fit in {}", ty.name())),
            }
        }
    }
}

/// The operators of one operand that print as calls.
const CALLED: [UnaryOp; 22] = {
    use UnaryOp::*;
    [
        Abs, Sqrt, Floor, Ceil, Round, Trunc, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh,
        Acosh, Atanh, Exp, Log, Log10, IsNan,
    ]
};

/// Everything after `name(`.
fn call(lexer: &mut Lexer, name: Name, depth: usize) -> Result<Tree, String> {
    let mut args = vec![];
    if lexer.peek() != &Token::Symbol(")") {
        loop {
            args.push(infix(lexer, 0, depth + 1)?);
            if !lexer.accept(",") {
                break;
            }
        }
    }
    lexer.expect(")")?;
    let n = args.len();
    let mut take = args.into_iter();
    let mut next = || take.next().map(Box::new).ok_or_else(|| format!("`{name}` lacks an operand"));
    let arity = |want: usize| {
        if n == want { Ok(()) } else { Err(format!("`{name}` takes {want} operands, not {n}")) }
    };
    if let Some(op) = CALLED.into_iter().find(|op| *name == *format!("{op:?}").to_lowercase()) {
        arity(1)?;
        return Ok(Tree::Unary(op, next()?));
    }
    let mut pair = |op: BinaryOp| {
        arity(2)?;
        Ok::<_, String>(Tree::Binary(op, next()?, next()?))
    };
    Ok(match (&*name, scalar_type(&name)) {
        (_, Some(ty)) => {
            arity(1)?;
            Tree::Cast(ty, next()?)
        }
        ("min", _) => pair(BinaryOp::Min)?,
        ("max", _) => pair(BinaryOp::Max)?,
        ("pow", _) => pair(BinaryOp::Pow)?,
        ("atan2", _) => pair(BinaryOp::Atan2)?,
        ("select", _) => {
            arity(3)?;
            Tree::Select(Box::new([*next()?, *next()?, *next()?]))
        }
        ("likely", _) => {
            arity(1)?;
            Tree::Likely(next()?)
        }
        _ => {
            let value = if lexer.accept(".") { lexer.unsigned()? as usize } else { 0 };
            Tree::Call(name.clone(), take.collect(), value)
        }
    })
}

fn scalar_type(name: &str) -> Option<ScalarType> {
    use ScalarType::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64].into_iter().find(|t| t.name() == name)
}

/// The type that a tree says itself, if any of its leaves says one.
fn known(tree: &Tree) -> Option<ScalarType> {
    match tree {
        Tree::Constant(e) => Some(e.ty().scalar),
        Tree::Name(_) | Tree::Call(..) => None,
        Tree::Cast(ty, _) => Some(*ty),
        Tree::Unary(UnaryOp::IsNan, _) => Some(ScalarType::Bool),
        Tree::Unary(_, a) | Tree::Likely(a) => known(a),
        Tree::Binary(op, ..) if op.is_comparison() => Some(ScalarType::Bool),
        Tree::Binary(_, a, b) => known(a).or_else(|| known(b)),
        Tree::Select(arms) => known(&arms[1]).or_else(|| known(&arms[2])),
    }
}

/// The typed expression; `ty` is the type it must have.
fn build(tree: &Tree, ty: ScalarType, names: NamesAre) -> Result<Expr, String> {
    let e = match tree {
        Tree::Constant(e) => e.clone(),
        Tree::Name(n) if names == NamesAre::Variables && !n.contains('.') => {
            Expr::new(crate::expr::ExprKind::Var(n.clone()), Type::of(ty))
        }
        Tree::Name(n) => Expr::param(n.clone(), ty),
        Tree::Call(n, args, value) => {
            let args = args.iter().map(|a| build(a, ScalarType::I32, names)).collect::<Result<_, _>>()?;
            Expr::call(n.clone(), ty, args, *value)
        }
        Tree::Cast(to, a) => build(a, known(a).unwrap_or(ScalarType::I32), names)?.cast(*to),
        Tree::Unary(UnaryOp::IsNan, a) => {
            build(a, known(a).unwrap_or(ScalarType::F32), names)?.unary(UnaryOp::IsNan)
        }
        Tree::Unary(op, a) => build(a, ty, names)?.unary(*op),
        Tree::Likely(a) => build(a, ty, names)?.likely(),
        Tree::Binary(op, a, b) if op.is_comparison() => {
            let operands = known(a).or_else(|| known(b)).unwrap_or(ScalarType::I32);
            Expr::binary(*op, build(a, operands, names)?, build(b, operands, names)?)
        }
        Tree::Binary(op, a, b) => Expr::binary(*op, build(a, ty, names)?, build(b, ty, names)?),
        Tree::Select(arms) => {
            let [c, a, b] = &**arms;
            Expr::select(build(c, ScalarType::Bool, names)?, build(a, ty, names)?, build(b, ty, names)?)
        }
    };
    match e.ty().scalar {
        came if came == ty => Ok(e),
        came => Err(format!("`{e}` is {}, but {} is needed", came.name(), ty.name())),
    }
}
