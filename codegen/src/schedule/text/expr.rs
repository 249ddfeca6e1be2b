//! Expressions in schedule text: precedence climbing, then typing from the leaves that say their type. What says none is settled
//! when the schedule meets a pipeline, which declares its names ([`crate::plan::apply_schedule`]).

use crate::expr::print::word;
use crate::expr::{BinaryOp, Expr, ExprKind, Name, Param, UnaryOp};
use crate::schedule::text::lexer::{Lexer, Token};
use crate::types::{ScalarType, Type};

/// Deepest nesting that is read: bounds the recursion.
const MAX_DEPTH: usize = 200;

/// Meaning of a bare name.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum NamesAre {
    /// Loop variables; names with a dot are parameters all the same.
    Variables,
    /// Run-time parameters.
    Parameters,
}

/// An expression before its names and calls have types.
enum Tree {
    Constant(Expr),
    /// A part that was named before, with its type and how surely that is known: the part itself may await a pipeline.
    Shared(Expr, (Surety, ScalarType)),
    Name(Name),
    Call(Name, Vec<Tree>, usize),
    Cast(ScalarType, Box<Tree>),
    Bits(ScalarType, Box<Tree>),
    Unary(UnaryOp, Box<Tree>),
    Likely(Box<Tree>),
    Strict(Box<Tree>),
    Binary(BinaryOp, Box<Tree>, Box<Tree>),
    /// `&&` or `||`: of bools.
    Logical(BinaryOp, Box<Tree>, Box<Tree>),
    Fma(Box<[Tree; 3]>),
    Select(Box<[Tree; 3]>),
}

/// Certainty about the type of an expression: a number in its usual form gives way to anything that is surer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Surety {
    /// Names and calls only.
    Unknown,
    /// `3`
    Whole,
    /// `0.5`
    Fraction,
    /// Said by a type's name, a suffix or an operator.
    Said,
}

/// Reads an expression; one without a type of its own gets `hint`, or i32.
pub(super) fn parse(lexer: &mut Lexer, names: NamesAre, hint: Option<ScalarType>) -> Result<Expr, String> {
    let mut reader = Reader { lexer, names, shared: vec![] };
    if !reader.lexer.accept("{") {
        return Ok(reader.expression(hint)?.0);
    }
    while reader.lexer.starts_definition() {
        reader.lexer.expect("%")?;
        let (i, next) = (reader.lexer.unsigned()? as usize, reader.shared.len());
        if i != next {
            return Err(format!("expected %{next}, not %{i}"));
        }
        reader.lexer.expect("=")?;
        let part = reader.expression(None)?;
        reader.shared.push(part);
        reader.lexer.expect(";")?;
    }
    let e = reader.expression(hint)?.0;
    reader.lexer.expect("}")?;
    Ok(e)
}

/// Reads one expression, with the parts of it that were named.
struct Reader<'l, 't> {
    lexer: &'l mut Lexer<'t>,
    names: NamesAre,
    shared: Vec<(Expr, (Surety, ScalarType))>,
}

impl Reader<'_, '_> {
    fn expression(&mut self, hint: Option<ScalarType>) -> Result<(Expr, (Surety, ScalarType)), String> {
        let tree = self.infix(0, 0)?;
        let (surety, ty) = known(&tree);
        Ok((build(&tree, hint.unwrap_or(ty), self.names)?, (surety, ty)))
    }
}

/// Strength, operator and whether it is one of bools alone.
fn operator(token: &Token) -> Option<(u8, BinaryOp, bool)> {
    use BinaryOp::*;
    let Token::Symbol(symbol) = token else { return None };
    let (strength, op) = match *symbol {
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
    };
    Some((strength, op, matches!(*symbol, "||" | "&&")))
}

impl Reader<'_, '_> {
    /// Operands joined by operators of at least `strength`, which associate to the left.
    fn infix(&mut self, strength: u8, depth: usize) -> Result<Tree, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        let mut left = self.prefix(depth)?;
        let mut length = 0;
        while let Some((s, op, logical)) = operator(self.lexer.peek()).filter(|o| o.0 >= strength) {
            length += 1;
            if depth + length > MAX_DEPTH {
                return Err(format!("nested deeper than {MAX_DEPTH}"));
            }
            self.lexer.advance();
            let right = self.infix(s + 1, depth + 1)?;
            let join = if logical { Tree::Logical } else { Tree::Binary };
            left = join(op, left.into(), right.into());
        }
        Ok(left)
    }

    fn prefix(&mut self, depth: usize) -> Result<Tree, String> {
        if self.lexer.accept("!") {
            return Ok(Tree::Unary(UnaryOp::Not, self.operand(depth)?.into()));
        }
        if self.lexer.accept("-") {
            if let Some(v) = number(self.lexer) {
                return constant(self.lexer, v, true);
            }
            return Ok(Tree::Unary(UnaryOp::Neg, self.operand(depth)?.into()));
        }
        if self.lexer.accept("(") {
            let tree = self.infix(0, depth + 1)?;
            self.lexer.expect(")")?;
            return Ok(tree);
        }
        if self.lexer.accept("%") {
            let i = self.lexer.unsigned()?;
            let part = self.shared.get(i as usize).ok_or_else(|| format!("%{i} was not named before"))?;
            return Ok(Tree::Shared(part.0.clone(), part.1));
        }
        if let Some(v) = number(self.lexer) {
            return constant(self.lexer, v, false);
        }
        let name = self
            .lexer
            .name()
            .map_err(|_| format!("expected an expression, not {}", self.lexer.describe()))?;
        match &*name {
            "true" | "false" => Ok(Tree::Constant(Expr::bool(&*name == "true"))),
            _ if self.lexer.accept("(") => self.call(name, depth),
            _ => Ok(Tree::Name(name)),
        }
    }

    /// The operand of a prefix operator.
    fn operand(&mut self, depth: usize) -> Result<Tree, String> {
        self.infix(8, depth + 1)
    }

    /// Everything after `name(`.
    fn call(&mut self, name: Name, depth: usize) -> Result<Tree, String> {
        let mut args = vec![];
        if self.lexer.peek() != &Token::Symbol(")") {
            loop {
                args.push(self.infix(0, depth + 1)?);
                if !self.lexer.accept(",") {
                    break;
                }
            }
        }
        self.lexer.expect(")")?;
        if let Some(args) = operation(&name, &mut args)? {
            return Ok(args);
        }
        let value = if self.lexer.accept(".") { self.lexer.unsigned()? as usize } else { 0 };
        Ok(Tree::Call(name, args, value))
    }
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

/// The operator that prints as a call of `name`, if it is one; takes the operands.
fn operation(name: &str, args: &mut Vec<Tree>) -> Result<Option<Tree>, String> {
    let one = |args: &mut Vec<Tree>| operands(name, args).map(|[a]| Box::new(a));
    if let Some(&op) = UnaryOp::CALLED.iter().find(|op| op.name() == name) {
        return Ok(Some(Tree::Unary(op, one(args)?)));
    }
    if let Some(&op) = BinaryOp::CALLED.iter().find(|op| word(**op) == name) {
        let [a, b] = operands(name, args)?;
        return Ok(Some(Tree::Binary(op, Box::new(a), Box::new(b))));
    }
    if let Some(ty) = scalar_type(name) {
        return Ok(Some(Tree::Cast(ty, one(args)?)));
    }
    if let Some(ty) = name.strip_prefix("bits_as_").and_then(scalar_type) {
        return Ok(Some(Tree::Bits(ty, one(args)?)));
    }
    Ok(Some(match name {
        "fma" => Tree::Fma(Box::new(operands(name, args)?)),
        "select" => Tree::Select(Box::new(operands(name, args)?)),
        "likely" => Tree::Likely(one(args)?),
        "strict" => Tree::Strict(one(args)?),
        _ => return Ok(None),
    }))
}

fn operands<const N: usize>(name: &str, args: &mut Vec<Tree>) -> Result<[Tree; N], String> {
    let n = args.len();
    std::mem::take(args).try_into().map_err(|_| format!("`{name}` takes {N} operands, not {n}"))
}

fn scalar_type(name: &str) -> Option<ScalarType> {
    use ScalarType::*;
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64].into_iter().find(|t| t.name() == name)
}

/// The type that a tree says itself, by the surest of its leaves; i32 if none does.
fn known(tree: &Tree) -> (Surety, ScalarType) {
    use Surety::*;
    // Of two that are as sure, the first.
    let either = |a: (Surety, ScalarType), b: (Surety, ScalarType)| if b.0 > a.0 { b } else { a };
    match tree {
        Tree::Constant(e) => match (e.kind(), e.ty().scalar) {
            (ExprKind::Int(_), ScalarType::I32) => (Whole, ScalarType::I32),
            (ExprKind::Float(_), ScalarType::F64) => (Fraction, ScalarType::F64),
            (_, ty) => (Said, ty),
        },
        Tree::Shared(_, known) => *known,
        Tree::Name(_) | Tree::Call(..) => (Unknown, ScalarType::I32),
        Tree::Cast(ty, _) | Tree::Bits(ty, _) => (Said, *ty),
        Tree::Unary(UnaryOp::IsNan, _) | Tree::Logical(..) => (Said, ScalarType::Bool),
        Tree::Unary(_, a) | Tree::Likely(a) | Tree::Strict(a) => known(a),
        Tree::Binary(op, ..) if op.is_comparison() => (Said, ScalarType::Bool),
        Tree::Binary(_, a, b) => either(known(a), known(b)),
        Tree::Fma(args) => args.iter().map(known).reduce(either).unwrap_or((Unknown, ScalarType::I32)),
        Tree::Select(arms) => either(known(&arms[1]), known(&arms[2])),
    }
}

/// The typed expression; `ty` is the type it must have, as far as it says one.
fn build(tree: &Tree, ty: ScalarType, names: NamesAre) -> Result<Expr, String> {
    let of = |a: &Tree, ty| build(a, ty, names);
    let alone = |a: &Tree| of(a, known(a).1);
    let e = match tree {
        Tree::Name(n) if names == NamesAre::Variables && !n.contains('.') => {
            return Ok(Expr::new(ExprKind::Var(n.clone()), Type::of(ty)));
        }
        Tree::Name(n) => return Ok(Expr::param(Param::parse(n), ty)),
        Tree::Call(n, args, value) => {
            let args = args.iter().map(|a| of(a, ScalarType::I32)).collect::<Result<_, _>>()?;
            return Ok(Expr::call(n.clone(), ty, args, *value));
        }
        Tree::Unary(op, a) if *op != UnaryOp::IsNan => return Ok(of(a, ty)?.unary(*op)),
        Tree::Likely(a) => return Ok(of(a, ty)?.likely()),
        Tree::Strict(a) => {
            let e = of(a, ty)?.marked();
            return if e.is_strict() {
                Ok(e)
            } else {
                Err(format!("`strict` takes an operation, not `{e}`"))
            };
        }
        Tree::Binary(op, a, b) if !op.is_comparison() => {
            return Ok(Expr::binary(*op, of(a, ty)?, of(b, ty)?));
        }
        // Types are settled where names are declared: nothing is converted before.
        Tree::Fma(args) => {
            let (a, b, c) = (of(&args[0], ty)?, of(&args[1], ty)?, of(&args[2], ty)?);
            let ty = a.ty();
            return Ok(Expr::new(ExprKind::Fma(a, b, c), ty));
        }
        Tree::Select(arms) => {
            let [c, a, b] = &**arms;
            let (c, a, b) = (of(c, ScalarType::Bool)?, of(a, ty)?, of(b, ty)?);
            let ty = a.ty();
            return Ok(Expr::new(ExprKind::Select(c, a, b), ty));
        }
        // Leaves, and operators that say their own type.
        Tree::Constant(e) => e.literal_as(ty).unwrap_or_else(|| e.clone()),
        Tree::Shared(e, (Surety::Said, came)) if *came != ty => return Err(needed(e, *came, ty)),
        Tree::Shared(e, _) => return Ok(e.clone()),
        Tree::Cast(to, a) => Expr::new(ExprKind::Cast(alone(a)?), Type::of(*to)),
        Tree::Bits(to, a) => alone(a)?.reinterpret(*to),
        Tree::Unary(op, a) => {
            let (surety, own) = known(a);
            of(a, if surety == Surety::Unknown { ScalarType::F32 } else { own })?.unary(*op)
        }
        Tree::Logical(op, a, b) => {
            let (a, b) = (of(a, ScalarType::Bool)?, of(b, ScalarType::Bool)?);
            Expr::new(ExprKind::Binary(*op, a, b), Type::BOOL)
        }
        Tree::Binary(op, a, b) => {
            let ((sa, ta), (sb, tb)) = (known(a), known(b));
            let operands = if sb > sa { tb } else { ta };
            Expr::binary(*op, of(a, operands)?, of(b, operands)?)
        }
    };
    match e.ty().scalar {
        came if came == ty => Ok(e),
        came => Err(needed(&e, came, ty)),
    }
}

fn needed(e: &Expr, came: ScalarType, ty: ScalarType) -> String {
    format!("`{e}` is {}, but {} is needed", came.name(), ty.name())
}
