//! Names, types, constants and integer expressions in C.

use crate::compile::bind::Source;
use crate::compile::signature::{BufferSlot, Signature};
use crate::expr::walk::postorder;
use crate::expr::{BinaryOp, Expr, ExprKind, Part};
use crate::types::ScalarType;
use rustc_hash::FxHashMap;

/// The argument for a buffer: that of element k of a tuple of several types is `f_k`.
pub(super) fn buffer_name(slot: &BufferSlot) -> String {
    match slot.element {
        Some(k) => format!("{}_{k}", slot.of),
        None => slot.of.to_string(),
    }
}

/// The runtime's name of a part of a buffer, apart from its dimension.
pub(super) fn part_name(part: Part) -> &'static str {
    match part {
        Part::Min(_) => "min",
        Part::Extent(_) => "extent",
        Part::Stride(_) | Part::Step(_) => "stride",
        Part::Phase => "phase",
    }
}

/// Can `name` name an argument or a function? What starts with `sumsq_` is the runtime's.
pub(super) fn is_identifier(name: &str) -> bool {
    const KEYWORDS: [&str; 32] = [
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
        "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
        "short", "signed", "sizeof", "static", "struct", "switch", "union", "unsigned", "void", "while",
    ];
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let free = !KEYWORDS.contains(&name) && !name.starts_with("sumsq_");
    plain && free && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// The runtime's name for a type.
pub(super) fn type_name(ty: ScalarType) -> String {
    format!("SUMSQ_{}", ty.name().to_uppercase())
}

/// The type of an argument.
pub fn c_type(ty: ScalarType) -> &'static str {
    use ScalarType::*;
    match ty {
        Bool | U8 => "uint8_t",
        I8 => "int8_t",
        I16 => "int16_t",
        I32 => "int32_t",
        I64 => "int64_t",
        U16 | F16 => "uint16_t",
        U32 => "uint32_t",
        U64 => "uint64_t",
        F32 => "float",
        F64 => "double",
    }
}

/// A string constant.
pub(super) fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_ascii_graphic() || c == ' ' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
    out
}

/// Integer expressions over parameters and what buffers look like, as C. Every operation is a variable of its own, so that what
/// expressions share is computed once and nothing is nested deeper than a compiler takes. It computes what
/// [`crate::compile::bind::Plan`] evaluates; sums that do not fit in an int64_t set `sumsq_ok` to 0.
pub(super) struct Arithmetic<'a> {
    signature: &'a Signature,
    /// The C expression that stands for a node, by the node's address.
    values: FxHashMap<usize, String>,
    variables: usize,
}

impl<'a> Arithmetic<'a> {
    pub(super) fn new(signature: &'a Signature) -> Self {
        Arithmetic { signature, values: FxHashMap::default(), variables: 0 }
    }

    /// The value of `e`, after the declarations that this adds to `lines`; none if C cannot compute it.
    pub(super) fn value(&mut self, e: &'a Expr, lines: &mut Vec<String>) -> Option<String> {
        for n in postorder(&[e]) {
            if self.values.contains_key(&n.id()) {
                continue;
            }
            let mut value = self.node(n)?;
            if !matches!(n.kind(), ExprKind::Int(_)) {
                let name = format!("sumsq_{}", self.variables);
                self.variables += 1;
                lines.push(format!("const int64_t {name} = {value};"));
                value = name;
            }
            self.values.insert(n.id(), value);
        }
        self.values.get(&e.id()).cloned()
    }

    /// A node whose operands have values.
    fn node(&self, e: &Expr) -> Option<String> {
        let of = |e: &Expr| &self.values[&e.id()];
        let ty = e.ty().scalar;
        Some(match e.kind() {
            ExprKind::Int(i64::MIN) => "INT64_MIN".into(),
            ExprKind::Int(v) => format!("INT64_C({v})"),
            ExprKind::Cast(a) if a.ty().scalar.is_int() && ty.is_int() => {
                format!("({}){}", c_type(ty), of(a))
            }
            ExprKind::Param(p) => match Source::of(p, ty, self.signature)? {
                Source::Part(slot, part, _) => {
                    let buffer = buffer_name(&self.signature.buffers[slot]);
                    format!("{buffer}->{}[{}]", part_name(part), part.dimension())
                }
                Source::Param(_) if ty.is_int() => format!("(int64_t){p}"),
                Source::Param(_) => return None,
            },
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match op {
                    BinaryOp::Add => format!("sumsq_add(&sumsq_ok, {a}, {b})"),
                    BinaryOp::Sub => format!("sumsq_sub(&sumsq_ok, {a}, {b})"),
                    BinaryOp::Mul => format!("sumsq_mul(&sumsq_ok, {a}, {b})"),
                    BinaryOp::Min => format!("sumsq_min({a}, {b})"),
                    BinaryOp::Max => format!("sumsq_max({a}, {b})"),
                    BinaryOp::Div => format!("sumsq_div({a}, {b})"),
                    BinaryOp::Mod => format!("sumsq_mod({a}, {b})"),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}
