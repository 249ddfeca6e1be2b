//! Mistakes in energies: a typed fault, and where in the text it is.

use crate::budgets::Budget;
use crate::model::{Energy, SourceFile};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Kinds of mistakes. Names are as the user wrote them.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Fault {
    // The text.
    #[error("{0}")]
    Syntax(String),
    #[error("{0}")]
    Lua(String),
    #[error("cannot read `{path}`: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("the energy takes more than {most} {budget}{}", while_of(.routine))]
    /// A budget that is spent, its figure, and the routine under way.
    Budget { budget: Budget, most: u64, routine: Option<String> },
    #[error("{limit}{}", of_largest(.largest))]
    /// Code that is longer than what may be compiled, or takes longer: pipeline and figures, and the group of the largest residual with the nodes of
    /// its expression.
    Code { limit: String, largest: Option<(String, usize)> },
    #[error("patterns of Lua's `string` are not available in energy files")]
    Pattern,
    #[error("the energy file runs for more than {0} s")]
    OutOfTime(u64),
    #[error("the energy file nests its calls too deeply")]
    TooDeep,

    // Names.
    #[error("`{name}` is neither declared here nor part of the energy language")]
    UnknownName { name: String, similar: Option<String> },
    #[error("`{0}` is not available in energy files")]
    Forbidden(String),
    #[error("`{0}` is not supported")]
    NotSupported(String),
    #[error("`{0}` has no member `{1}`")]
    NoMember(String, String),

    // Declarations.
    #[error("`{name}` is declared twice")]
    Duplicate { name: String },
    #[error("two groups of residuals are named `{name}`")]
    DuplicateGroup { name: String },
    #[error("`{name}` has {dims} dims; at most {most} are possible")]
    TooManyDims { name: String, dims: usize, most: usize },
    #[error("a name cannot be empty")]
    EmptyName,
    #[error("`{0}` has no dims")]
    NoDims(String),
    #[error("`{name}` and `{other}` are both at position {position}")]
    SamePosition { name: String, other: String, position: i64 },
    #[error("`{name}` has the position of the unknown `{unknown}` but not its channels and dims")]
    ViewMismatch { name: String, unknown: String },
    #[error("the computed array `{name}` is over {over} but reads over {domain}")]
    ComputedDomain { name: String, over: String, domain: String },
    #[error("the computed array `{name}` reads `{read}` through a graph")]
    ComputedReadsGraph { name: String, read: String },
    #[error("the hyperedges of `{graph}` have {got} vertices, at most 65534 can be")]
    TooManyVertices { graph: String, got: usize },
    #[error("with `{name}` the hyperedges of `{graph}` read at more than 65535 places")]
    TooManyPlaces { name: String, graph: String },
    #[error("`{0}` is not a given array; only those are sampled")]
    SampledSource(String),
    #[error("`{name}` has {} but {} derivative images are given", count(*.dims, "dim"), got)]
    PartialCount { name: String, dims: usize, got: usize },
    #[error("the derivative image `{partial}` is not shaped like `{name}`")]
    PartialShape { name: String, partial: String },
    #[error("`{image}` is sampled where the unknown `{unknown}` says, but has no derivative images")]
    NoDerivativeImage { image: String, unknown: String },
    #[error("the scale of a loss is one positive number, or an expression without unknowns, got {0}")]
    LossScale(String),
    #[error("`Power` takes positive numbers or Params, got {0}")]
    PowerLoss(f64),
    #[error("a loss is one expression of its squared norm q, numbers and Params; this one {0}")]
    LossFormula(String),
    #[error("the squared norm q of a loss is read outside of its function")]
    StraySquare,
    #[error("channels of one Vector under a loss are residuals over {0} and over {1}")]
    MixedBlock(String, String),
    #[error("`Bounds` is for unknowns; `{0}` is none")]
    BoundsOfArray(String),
    #[error("`{0}` has two `Bounds`")]
    BoundsTwice(String),
    #[error("a bound of `{name}` reads the unknown `{unknown}`")]
    BoundsReadUnknown { name: String, unknown: String },
    #[error("`NearNull` is for unknowns; `{0}` is none")]
    NearNullOfArray(String),
    #[error("a `NearNull` of `{name}` reads the unknown `{unknown}`")]
    NearNullReadsUnknown { name: String, unknown: String },
    #[error("a position is a whole number from 0, got {0}")]
    BadPosition(String),
    #[error("`{name}` has {channels} channels; 1 to 64 are possible")]
    ChannelCount { name: String, channels: i64 },
    #[error("the unknown `{0}` has an integer type")]
    IntegerUnknown(String),
    #[error("the graph `{0}` has no vertices")]
    NoVertices(String),

    // Use of values.
    #[error("`{function}` takes {expected}, got {got}")]
    Arity { function: String, expected: String, got: usize },
    #[error("`{function}` expects {expected} as argument {position}, got {got}")]
    Argument { function: String, position: usize, expected: String, got: String },
    #[error("an expression is expected, got {0}")]
    NotAnExpression(String),
    #[error("an expression is expected, got the boolean {0}")]
    Boolean(bool),
    #[error("Lua's own comparison on expressions")]
    LuaComparison,
    #[error("Lua's `{0}` on an expression, whose value the solve alone knows")]
    LuaWord(&'static str),
    #[error("`{0}` is an array; an expression is expected")]
    BareField(String),
    #[error("operand {} has {} and operand {} has {}", first.0, count(first.1, "channel"), second.0, second.1)]
    /// Two operands: which (from 1), and their channels.
    Channels { first: (usize, usize), second: (usize, usize) },
    #[error("`{function}` takes {} there, got {got}", entries(*.expected))]
    VectorSize { function: String, expected: usize, got: usize },
    #[error("`{function}` takes a scalar as argument {position}, got {}", entries(*.got))]
    NotScalar { function: String, position: usize, got: usize },
    #[error("channel {channel} of `{name}`, which has {channels}")]
    ChannelRange { name: String, channel: i64, channels: usize },
    #[error("channels {start} to {end} (exclusive) of `{name}`, which has {channels}")]
    SliceRange { name: String, start: i64, end: i64, channels: usize },
    #[error("{what} of `{name}` is not a constant whole number: {got}")]
    NotConstant { name: String, what: &'static str, got: String },
    #[error("`{name}` has {} but is read with {}", count(*.dims, "dim"), count(*.got, "number"))]
    OffsetCount { name: String, dims: usize, got: usize },
    #[error("`{field}` lives over {field_space} but `{vertex}` points into {vertex_space}")]
    VertexSpace { field: String, field_space: String, vertex: String, vertex_space: String },
    #[error("the exponent of `^` reads the unknown `{0}`")]
    UnknownExponent(String),
    #[error("expressions of two different energies are mixed")]
    Foreign,
    #[error("the energy is finished already")]
    Finished,

    // Residuals and the whole.
    #[error(
        "a residual mixes domains: `{first}` is read over {first_domain}, `{second}` over {second_domain}"
    )]
    MixedDomains { first: String, first_domain: String, second: String, second_domain: String },
    #[error("`{function}` in a residual over the graph `{graph}`")]
    NotInGraphs { function: String, graph: String },
    #[error("`{function}` is for {}, but this is over {domain}, which has {dims}", count(*.got, "dim"))]
    DimCount { function: String, got: usize, domain: String, dims: usize },
    #[error("`Exclude` reads the unknown `{0}`")]
    ExcludeReadsUnknown(String),
    #[error("`Exclude` reads `{0}` through a graph")]
    ExcludeReadsGraph(String),
    #[error("`Exclude` reads no array, so its index space is not known")]
    ExcludeReadsNothing,
    #[error("no residual reads the unknown `{0}`")]
    UnreadUnknown(String),
    #[error("the energy declares no unknown")]
    NoUnknowns,
}

/// `1 dim`, `2 dims`.
fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// `, while jtjp {W,H} is derived`.
fn while_of(routine: &Option<String>) -> String {
    routine.as_ref().map_or_else(String::new, |r| format!(", while {r} is derived"))
}

/// `; the largest residual, of 120 nodes, is in group energy_2`.
fn of_largest(largest: &Option<(String, usize)>) -> String {
    let Some((group, nodes)) = largest else { return String::new() };
    format!("; the largest residual, of {nodes} nodes, is in group {group}")
}

/// A scalar or Vector by its size.
fn entries(n: usize) -> String {
    if n == 1 { "a scalar".into() } else { format!("a Vector with {n} entries") }
}

impl Fault {
    /// Returns what to do about it.
    pub fn help(&self) -> Option<String> {
        use Fault::*;
        let text = match self {
            Budget { budget, .. } => {
                return Some(budget.remedy().to_owned());
            }
            Code { .. } => {
                "fewer residuals, or residuals that read less, take less; the limits: --max-instructions, --max-compile-seconds"
            }
            Pattern => "`string.find(s, part, 1, true)` finds plain text; so do `sub`, `byte`, `format`, ...",
            OutOfTime(_) => {
                "do its strings or tables grow? The time is for what counts of instructions cannot see"
            }
            TooDeep => "is there a function that calls itself without end?",
            Unreadable { .. } => "check the path and its permissions",
            UnknownName { similar: Some(s), .. } => return Some(format!("did you mean `{s}`?")),
            UnknownName { .. } => {
                "declare it (`Unknown`, `Array`, `Param`, ... or a Lua variable) before this line"
            }
            Forbidden(_) => {
                "energy files describe a problem only: no files, no processes, no code loading, no protected calls"
            }
            NotSupported(_) => return None,
            ViewMismatch { .. } => {
                "an array at the position of an unknown is a constant view of it: same type, same dims"
            }
            ComputedDomain { .. } => "it may read unknowns, arrays and computed arrays over the same dims",
            ComputedReadsGraph { .. } => {
                "computed arrays are over elements; write a residual over the graph instead"
            }
            TooManyVertices { .. } => {
                "a hyperedge joins few elements; a sum over many is a residual of its own for each"
            }
            TooManyPlaces { .. } => {
                "a vertex counts once for every offset at which the computed arrays that are read there read"
            }
            SampledSource(_) => "declare it with Array(...) or Image(...), and fill it before the solve",
            PartialCount { .. } | PartialShape { .. } => {
                "SampledImage(im, dx, dy) takes one image per dim, each with the dims and channels of im"
            }
            NoDerivativeImage { .. } => "give them: SampledImage(im, dx, dy)",
            LossScale(_) => "as in Residual{loss=Huber(0.1), ...}, or Huber(S(0,0)) with an array S",
            PowerLoss(_) => "as in Residual{loss=Power(1.2, 1e-3), ...}: (q + 1e-6)^0.6",
            LossFormula(_) => "as in Residual{loss=Loss(function(q) return log(1 + q) end), ...}",
            StraySquare => "square the residual itself",
            MixedBlock(..) => "give them as separate values",
            BoundsOfArray(_) => "as in Bounds(X, 0, 1), with all channels of an Unknown",
            BoundsTwice(_) => "give one lower and one upper bound",
            BoundsReadUnknown { .. } => "bounds are numbers, Params or arrays",
            NearNullOfArray(_) => "as in NearNull(X, Vector(1, 0)), with all channels of an Unknown",
            NearNullReadsUnknown { .. } => "a displacement is made of numbers, Params and arrays",
            Duplicate { .. } => {
                "dims, unknowns, arrays, params, graphs and vertices share one set of names, by which inputs are bound"
            }
            DuplicateGroup { .. } => {
                "where they are to be reported as one, say so: Residual{name=..., merge=true, ...}"
            }
            TooManyDims { .. } => "several dims in one: an extent W*H, with a graph for its neighbours",
            NoDims(_) => {
                "list its dims, fastest-varying first, as in {W,H}; only an Unknown may have none, and is a global then"
            }
            SamePosition { .. } => {
                "unknowns, arrays, params, graphs and their vertices share one numbering; dims have their own"
            }
            BadPosition(_) => "the last argument of a declaration is its position in the parameter list",
            ChannelCount { .. } => "types are opt_float, float and double, or these with 1 to 64 appended",
            IntegerUnknown(_) => {
                "unknowns are opt_float, float or double, or vectors of these; integers are for arrays"
            }
            NoVertices(_) => {
                "give at least one vertex: a name, its dims and its position, as in \"v0\", {N}, 7"
            }
            Boolean(_) => {
                "`==` and `~=` between an expression and a number are plain booleans in Lua; use eq(a,b), Not(x), And(...), Or(...)"
            }
            LuaComparison => {
                "use eq(a,b), less(a,b), lesseq(a,b), greater(a,b) or greatereq(a,b), which give 1 or 0"
            }
            LuaWord(word) => match *word {
                "and" => "use And(a,b); for a choice between values, Select(cond, a, b)",
                "or" => "use Or(a,b); for a value that may be missing, `if v == nil then`",
                "not" => "use Not(x)",
                "==" => "use eq(a,b), which gives 1 or 0; `== nil` asks whether there is a value",
                "~=" => "use Not(eq(a,b)), which gives 1 or 0; `~= nil` asks whether there is a value",
                _ => "use Select(cond, a, b); `v ~= nil` asks whether there is a value",
            },
            BareField(name) => {
                return Some(format!("read it at an offset, `{name}(0,0)`, or at a vertex, `{name}(G.v0)`"));
            }
            Channels { .. } => "operands have the same number of channels, or one of them is a scalar",
            NotScalar { .. } => "pick a channel with v(i) or v[i], counted from 0",
            ChannelRange { .. } | SliceRange { .. } => "channels count from 0",
            NotConstant { .. } => {
                "offsets and channels are constants; reading at computed coordinates needs SampledImage"
            }
            OffsetCount { dims, .. } => {
                let offsets = count(*dims, "offset");
                return Some(format!("give {offsets}, or {offsets} and a channel, or a graph vertex"));
            }
            VertexSpace { .. } => "read it through a vertex that points into its index space",
            UnknownExponent(_) => {
                "`^` takes constants, Params and arrays as exponent; pow(x,y) differentiates both, for x > 0"
            }
            MixedDomains { .. } => "one residual has one domain; write a separate Energy(...) for each",
            NotInGraphs { .. } => {
                "in graph residuals arrays are read through vertices, and there are no neighbours"
            }
            DimCount { .. } => "give one offset per dim of the index space; Index counts dims from 0",
            ExcludeReadsUnknown(_) => {
                "what is held fixed is decided before the solve, from arrays, Params and Index"
            }
            ExcludeReadsGraph(_) => "exclude elements of an index space, reading its arrays at offsets",
            ExcludeReadsNothing => "read an array of the index space whose unknowns are to be held",
            UnreadUnknown(_) => "use it in an Energy(...), or remove its declaration",
            NoUnknowns => "declare what is solved for with Unknown(name, type, {dims}, position)",
            Syntax(_)
            | Lua(_)
            | NoMember(..)
            | EmptyName
            | Arity { .. }
            | Argument { .. }
            | NotAnExpression(_)
            | VectorSize { .. }
            | Foreign
            | Finished => return self.help_by_message(),
        };
        Some(text.to_owned())
    }

    /// Lua's own errors are text; the hint follows from it.
    fn help_by_message(&self) -> Option<String> {
        let Fault::Lua(message) = self else { return None };
        if message.contains("number expected, got userdata") {
            return Some(
                "Lua's math functions take numbers; on expressions use sqrt, sin, pow, ... without `math.`"
                    .into(),
            );
        }
        if message.contains("attempt to perform arithmetic on") && message.contains("(a function value)") {
            return Some(
                "a function of the energy language is called with its arguments, as in sin(x)".into(),
            );
        }
        None
    }

    /// The name that the caret goes under, if it is found in the line.
    pub(crate) fn culprit(&self) -> Option<&str> {
        use Fault::*;
        match self {
            UnknownName { name, .. }
            | Duplicate { name }
            | DuplicateGroup { name }
            | TooManyDims { name, .. }
            | SamePosition { name, .. }
            | ViewMismatch { name, .. }
            | ComputedDomain { name, .. }
            | ComputedReadsGraph { name, .. }
            | TooManyPlaces { name, .. }
            | PartialCount { name, .. }
            | PartialShape { partial: name, .. }
            | NoDerivativeImage { image: name, .. }
            | BoundsReadUnknown { name, .. }
            | NearNullReadsUnknown { name, .. }
            | ChannelCount { name, .. }
            | ChannelRange { name, .. }
            | SliceRange { name, .. }
            | NotConstant { name, .. }
            | OffsetCount { name, .. } => Some(name),
            Forbidden(n)
            | NotSupported(n)
            | SampledSource(n)
            | BoundsOfArray(n)
            | BoundsTwice(n)
            | NearNullOfArray(n)
            | NoDims(n)
            | IntegerUnknown(n)
            | NoVertices(n)
            | BareField(n)
            | UnknownExponent(n)
            | ExcludeReadsUnknown(n)
            | ExcludeReadsGraph(n)
            | UnreadUnknown(n) => Some(n),
            NoMember(_, member) => Some(member),
            VertexSpace { field, .. } => Some(field),
            Arity { function, .. }
            | Argument { function, .. }
            | VectorSize { function, .. }
            | NotScalar { function, .. }
            | NotInGraphs { function, .. }
            | DimCount { function, .. } => Some(function),
            ExcludeReadsNothing => Some("Exclude"),
            _ => None,
        }
    }
}

/// A line of the energy with what is to be said about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Note {
    /// 1-based line.
    pub line: u32,
    /// Text to underline, where it occurs once in that line; else the line is.
    pub name: Option<String>,
    /// The words there.
    pub text: Option<String>,
    /// The part to underline, in bytes of the file, where it is known.
    pub place: Option<Range<usize>>,
}

/// An error in an energy, with its place in the energy file or in the Rust program that builds it.
#[derive(Clone, Debug)]
pub struct EnergyError {
    fault: Box<Fault>,
    notes: Vec<Note>,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    Nowhere,
    /// An energy file.
    File(Arc<SourceFile>),
    /// The Rust call at fault.
    Rust {
        file: String,
        line: u32,
    },
}

impl EnergyError {
    /// `fault` at `line` of `source`; `notes` point at more lines.
    pub(crate) fn in_file(
        fault: Fault,
        line: Option<u32>,
        mut notes: Vec<Note>,
        source: &Arc<SourceFile>,
    ) -> EnergyError {
        if let (Some(line), true) = (line, notes.is_empty()) {
            notes.push(Note { line, name: fault.culprit().map(str::to_owned), text: None, place: None });
        }
        EnergyError { fault: Box::new(fault), notes, place: Place::File(source.clone()) }
    }

    /// `fault` in a call of the Rust front end.
    pub(crate) fn in_rust(fault: Fault, at: Option<(String, u32)>) -> EnergyError {
        let place = at.map_or(Place::Nowhere, |(file, line)| Place::Rust { file, line });
        EnergyError { fault: Box::new(fault), notes: Vec::new(), place }
    }

    /// A budget that was spent while `routine` was derived; it is shown at `residual`, by default at the largest.
    pub(crate) fn while_deriving(
        energy: &Energy,
        budget: Budget,
        routine: String,
        residual: Option<usize>,
    ) -> EnergyError {
        let residual = residual.or_else(|| Some(largest(energy)?.0));
        let most = energy.dag.budgets().of(budget);
        let fault = Fault::Budget { budget, most, routine: Some(routine) };
        EnergyError::at_residual(fault, energy, residual)
    }

    /// Code that is over a limit of compilation, which names the pipeline and its figures. [`EnergyError::at_largest`] says where.
    pub fn too_much_code(limit: String) -> EnergyError {
        EnergyError::in_rust(Fault::Code { limit, largest: None }, None)
    }

    /// Code over a limit, with the largest residual of `energy` and its place; any other error as it is.
    #[must_use]
    pub fn at_largest(self, energy: &Energy) -> EnergyError {
        let Fault::Code { limit, largest: None } = *self.fault else { return self };
        let found = largest(energy);
        let group = |r: usize| energy.groups[energy.residuals[r].group.index()].clone();
        let fault = Fault::Code { limit, largest: found.map(|(r, nodes)| (group(r), nodes)) };
        EnergyError::at_residual(fault, energy, found.map(|(r, _)| r))
    }

    fn at_residual(fault: Fault, energy: &Energy, residual: Option<usize>) -> EnergyError {
        let line = residual.and_then(|r| energy.residuals[r].line);
        match &energy.source {
            Some(source) => EnergyError::in_file(fault, line, Vec::new(), source),
            None => EnergyError::in_rust(fault, None),
        }
    }

    /// The message as a text of some lines: with the line of the file, a mark below it, and what to do.
    pub fn rendered(&self) -> String {
        let theme = GraphicalTheme::none();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_links(false);
        let mut text = String::new();
        match handler.render_report(&mut text, self) {
            Ok(()) => text.trim_end().to_string(),
            Err(_) => self.to_string(),
        }
    }

    /// The problem.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// File (or name) and line, as far as known.
    pub fn location(&self) -> Option<(&str, Option<u32>)> {
        match &self.place {
            Place::Nowhere => None,
            Place::File(source) => Some((&source.name, self.notes.first().map(|n| n.line))),
            Place::Rust { file, line } => Some((file, Some(*line))),
        }
    }
}

/// The residual whose expression has the most nodes, the first of several, and their number.
fn largest(energy: &Energy) -> Option<(usize, usize)> {
    let nodes = |r: usize| energy.dag.reachable(&[energy.residuals[r].value]).len();
    (0..energy.residuals.len()).rev().map(|r| (r, nodes(r))).max_by_key(|&(_, nodes)| nodes)
}

impl fmt::Display for EnergyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            // With a file, the place is shown by the source snippet (or prefixed by whoever prints a single line).
            Place::Rust { file, line } => write!(f, "{} (at {file}:{line})", self.fault),
            _ => self.fault.fmt(f),
        }
    }
}

impl std::error::Error for EnergyError {}

impl Diagnostic for EnergyError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.fault.help().map(|h| Box::new(h) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match &self.place {
            Place::File(source) => Some(&**source),
            _ => None,
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Place::File(source) = &self.place else { return None };
        if self.notes.is_empty() {
            return None;
        }
        Some(Box::new(self.notes.iter().map(|n| {
            let (start, len) = match &n.place {
                Some(place) => (place.start, first_line(&source.text[place.clone()])),
                None => span_of(&source.text, n.line, n.name.as_deref()),
            };
            LabeledSpan::new(n.text.clone(), start, len)
        })))
    }
}

impl SourceCode for SourceFile {
    fn read_span<'a>(
        &'a self,
        span: &miette::SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn miette::SpanContents<'a> + 'a>, miette::MietteError> {
        let inner = self.text.read_span(span, before, after)?;
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.name.clone(),
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        )))
    }
}

/// Length of the first line of a part of the text.
fn first_line(part: &str) -> usize {
    part.lines().next().map_or(0, str::len)
}

/// Byte offset and length of `name` in line `line` if it is there once as a whole word, else of the line's text.
fn span_of(text: &str, line: u32, name: Option<&str>) -> (usize, usize) {
    let mut start = 0;
    for (i, full) in text.split_inclusive('\n').enumerate() {
        if i + 1 < line as usize {
            start += full.len();
            continue;
        }
        if let Some(at) = name.and_then(|n| sole_word(full, n)) {
            return (start + at, name.map_or(0, str::len));
        }
        let trimmed = full.trim_start();
        let indent = full.len() - trimmed.len();
        return (start + indent, trimmed.trim_end().len());
    }
    (text.len(), 0)
}

/// Returns where `word` occurs in `line`, if exactly once and not inside a longer name.
fn sole_word(line: &str, word: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut hits = line.match_indices(word).filter(|&(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_word)
            && !line[at + word.len()..].chars().next().is_some_and(is_word)
    });
    let first = hits.next()?.0;
    (!word.is_empty() && hits.next().is_none()).then_some(first)
}
