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
        if let Token::Int(v) = *lexer.peek() {
            lexer.advance();
            return constant(lexer, -v);
        }
        return Ok(Tree::Unary(UnaryOp::Neg, operand(lexer, depth)?.into()));
    }
    if lexer.accept("(") {
        let tree = infix(lexer, 0, depth + 1)?;
        lexer.expect(")")?;
        return Ok(tree);
    }
    if let Token::Int(v) = *lexer.peek() {
        lexer.advance();
        return constant(lexer, v);
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

/// An integer, with its type if that is not i32.
fn constant(lexer: &mut Lexer, v: i64) -> Result<Tree, String> {
    let ty = if lexer.accept(":") {
        let name = lexer.name()?;
        scalar_type(&name).filter(|t| t.is_int()).ok_or_else(|| format!("`{name}` is not an integer type"))?
    } else {
        ScalarType::I32
    };
    if ty.wrap(v) != v {
        return Err(format!("{v} does not fit in {}", ty.name()));
    }
    Ok(Tree::Constant(Expr::int(ty, v)))
}

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
    Ok(match (&*name, scalar_type(&name)) {
        (_, Some(ty)) => {
            arity(1)?;
            Tree::Cast(ty, next()?)
        }
        ("min" | "max", _) => {
            arity(2)?;
            Tree::Binary(if &*name == "min" { BinaryOp::Min } else { BinaryOp::Max }, next()?, next()?)
        }
        ("select", _) => {
            arity(3)?;
            Tree::Select(Box::new([*next()?, *next()?, *next()?]))
        }
        ("abs", _) => {
            arity(1)?;
            Tree::Unary(UnaryOp::Abs, next()?)
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
