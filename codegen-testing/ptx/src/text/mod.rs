//! PTX text as a tree: declarations and statements, names not yet resolved, instructions not yet understood.

mod lexer;
mod parser;

pub use parser::parse;

/// A translation unit.
#[derive(Debug, Default)]
pub struct Text<'a> {
    /// Version of the PTX language, `(6, 3)`.
    pub version: (u32, u32),
    /// Compute capability times ten: 75 for `sm_75`.
    pub target: u32,
    pub variables: Vec<Variable<'a>>,
    pub functions: Vec<Function<'a>>,
}

/// State spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Const,
    Param,
}

/// Memory with a name.
#[derive(Clone, Debug)]
pub struct Variable<'a> {
    pub space: Space,
    pub name: &'a str,
    pub align: usize,
    /// Bytes.
    pub size: usize,
    /// Bytes of the initialiser; empty where there is none.
    pub init: Vec<u8>,
    pub line: u32,
}

/// A kernel, a device function or the declaration of one.
#[derive(Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    pub kernel: bool,
    pub params: Vec<Variable<'a>>,
    pub results: Vec<Variable<'a>>,
    /// Threads of a block that the kernel insists on.
    pub reqntid: Option<[u32; 3]>,
    /// Most threads of a block.
    pub maxntid: Option<[u32; 3]>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement<'a>>>,
    pub line: u32,
}

/// A line of a body.
#[derive(Debug)]
pub struct Statement<'a> {
    pub line: u32,
    pub kind: StatementKind<'a>,
}

#[derive(Debug)]
pub enum StatementKind<'a> {
    /// `{`: names declared from here on end with the matching brace.
    Open,
    Close,
    Label(&'a str),
    /// `L: .branchtargets a, b;`
    Targets(&'a str, Vec<&'a str>),
    /// `.reg .b32 %r<8>;` declares `%r0` to `%r7`, without the brackets the name itself.
    Registers {
        bits: u32,
        name: &'a str,
        count: Option<u32>,
    },
    Variable(Variable<'a>),
    Instruction(Instruction<'a>),
}

/// An instruction; `op` carries all its modifiers.
#[derive(Debug)]
pub struct Instruction<'a> {
    /// Predicate, and true where it is negated.
    pub guard: Option<(&'a str, bool)>,
    pub op: &'a str,
    pub operands: Vec<Operand<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand<'a> {
    /// A register, special register, variable, label or function.
    Name(&'a str),
    /// `!%p1`.
    Not(&'a str),
    /// Bits of a literal; integers are extended by their sign.
    Literal(u64),
    /// `{a, b}`.
    Vector(Vec<Operand<'a>>),
    /// `(a, b)` of a call.
    Group(Vec<Operand<'a>>),
    /// `a|b`.
    Pair(&'a str, &'a str),
    /// `[name+offset]` or `[offset]`.
    Address(Option<&'a str>, i64),
}
