//! The adjoint of a program: J^T w of all that its runs compute, repetitions of fixed count included.
//!
//! A run needs what it read to go backwards, and a program writes over it. So going forwards every buffer that is written over is put aside; going
//! backwards it is put back, and the adjoints of what the run wrote become those of what it read.
//!
//! ```text
//! run     P(x) -> y      d_x += J^T d_y, then d_y = 0 where y was written over
//! swap    x, y           swap d_x, d_y
//! repeat  n times        forwards: the buffers of the loop are kept before every k-th iteration;
//!                        backwards, for each k iterations from the last: put these back, and go through the k as through any steps
//! ```
//! With k = sqrt(n) a loop takes the memory of 2 sqrt(n) iterations and runs forwards twice. Source: A. Griewank, "Achieving logarithmic growth of
//! temporal and spatial complexity in reverse automatic differentiation", 1992, at one level.

mod derive;

use crate::compile::Compiled;
use crate::error::{Error, bind_error};
use crate::expr::Name;
use crate::limits::Limits;
use crate::program::step::{BufferId, Step, Value};
use crate::program::table::Table;
use crate::program::verify::verify;
use crate::runtime::{Buffer, BufferError, BufferSpec, Pool, Scalar};
use crate::types::ScalarType;
use crate::{Pipeline, Schedule};
use derive::Deriver;
use indexmap::IndexMap;

/// A program that can be run backwards.
pub struct ReverseProgram {
    steps: Vec<Node>,
    /// Pipelines of the program, then their adjoints.
    codes: Vec<Compiled>,
    adjoints: IndexMap<BufferId, BufferId>,
    log: Vec<Entry>,
    spare: Vec<Buffer>,
}

/// A pipeline with a buffer for each of its names and a value for each parameter.
struct Call {
    code: usize,
    bindings: Vec<(Name, BufferId)>,
    params: Vec<(Name, Value)>,
}

/// A step, forwards and backwards.
enum Node {
    Run {
        call: Call,
        /// Buffers that it writes, and whether it reads them, too.
        written: Vec<(BufferId, bool)>,
        back: Option<Call>,
        /// Adjoints, and the new values of them that `back` writes.
        results: Vec<(BufferId, BufferId)>,
        /// Adjoints of what is written over without having been read.
        cleared: Vec<BufferId>,
    },
    Swap(BufferId, BufferId),
    Repeat {
        count: usize,
        every: usize,
        until: BufferId,
        body: Vec<Node>,
        /// Buffers that the body writes, and those of them that an iteration has from the one before.
        written: Vec<BufferId>,
        carried: Vec<BufferId>,
    },
}

/// A step that was gone through forwards: what is needed to go back.
enum Entry {
    Run(Vec<(BufferId, Buffer)>),
    Swap,
    /// The buffers of the loop before iterations 0, k, 2k..., the last on top.
    Repeat(Vec<Vec<(BufferId, Buffer)>>),
}

impl ReverseProgram {
    /// The program `steps` over `table`, to which adjoints are added. `pipelines` are those that the steps name, with the schedules of forward
    /// runs; adjoints get first schedules for the sizes of their buffers. Derivatives are taken with respect to the buffers `wrt` as they are
    /// before the program. The states of a repetition are kept every `every`-th time: the square root of its count where this is none.
    ///
    /// # Errors
    /// Steps that no [`Program`](crate::program::Program) takes, a host step, a repetition that may end early because its body writes the condition, a
    /// buffer of `wrt` that is of integers, a pipeline whose adjoint is refused.
    pub fn new(
        pipelines: &[(Pipeline, Schedule)],
        table: &mut Table,
        steps: &[Step],
        wrt: &[BufferId],
        every: Option<usize>,
        limits: Limits,
    ) -> Result<ReverseProgram, Error> {
        let target = crate::Target::host();
        let mut codes = Compiled::all_within(pipelines.to_vec(), &target, limits)?;
        verify(&codes, table, steps)?;
        let mut deriver = Deriver::new(pipelines, &codes, table, every);
        deriver.vary(steps, wrt)?;
        let steps = deriver.nodes(steps)?;
        let (jobs, adjoints) = deriver.end();
        codes.extend(Compiled::all_within(jobs, &target, limits)?);
        Ok(ReverseProgram { steps, codes, adjoints, log: vec![], spare: vec![] })
    }

    /// The adjoint of a buffer, alike in size and type; none if it does not depend on what is derived for. Before
    /// [`ReverseProgram::backward`] it is that of the buffer's values behind the program, and 0 unless it was set; then of those before it.
    pub fn adjoint(&self, id: BufferId) -> Option<BufferId> {
        self.adjoints.get(&id).copied()
    }

    /// Number of pipelines that were compiled: those of the program, and adjoints, equal ones once.
    pub fn pipelines(&self) -> usize {
        self.codes.len()
    }

    /// Bytes that are put aside for the way back.
    pub fn held(&self) -> usize {
        fn bytes(state: &[(BufferId, Buffer)]) -> usize {
            state.iter().map(|(_, b)| b.bytes()).sum()
        }
        let entry = |e: &Entry| match e {
            Entry::Run(state) => bytes(state),
            Entry::Swap => 0,
            Entry::Repeat(states) => states.iter().map(|s| bytes(s)).sum(),
        };
        self.log.iter().map(entry).sum()
    }

    /// Runs the program.
    ///
    /// # Errors
    /// A failure of a run, a repetition whose condition is not 0.
    pub fn forward(&mut self, table: &mut Table, pool: &Pool) -> Result<(), Error> {
        let ReverseProgram { steps, codes, log, spare, .. } = self;
        log.clear();
        Way { codes, spare, table, pool, adjoints: &self.adjoints }.forward(steps, log)
    }

    /// Goes back from where [`ReverseProgram::forward`] ended: buffers get the values that they had before the program, and adjoints become those of
    /// these values.
    ///
    /// # Errors
    /// A failure of a run.
    pub fn backward(&mut self, table: &mut Table, pool: &Pool) -> Result<(), Error> {
        let ReverseProgram { steps, codes, log, spare, .. } = self;
        if log.is_empty() && !steps.is_empty() {
            return Err(bind_error("program", "backward", "nothing was run forward since the last time"));
        }
        Way { codes, spare, table, pool, adjoints: &self.adjoints }.backward(steps, log)
    }
}

/// A run of the program, forwards or backwards.
struct Way<'w> {
    codes: &'w [Compiled],
    /// Buffers that nobody needs.
    spare: &'w mut Vec<Buffer>,
    table: &'w mut Table,
    pool: &'w Pool,
    adjoints: &'w IndexMap<BufferId, BufferId>,
}

impl Way<'_> {
    fn call(&self, call: &Call) -> Result<(), Error> {
        let buffers: Vec<(&str, &Buffer)> =
            call.bindings.iter().map(|(n, id)| (&**n, self.table.buffer(*id))).collect();
        let params: Vec<(&str, Scalar)> =
            call.params.iter().map(|(n, v)| (&**n, v.now(self.table))).collect();
        self.codes[call.code].run(self.pool, &buffers, &params)
    }

    /// A buffer like that of `id`, with its values if these are to stay.
    fn like(&mut self, id: BufferId, copied: bool) -> Result<Buffer, Error> {
        let of = self.table.buffer(id);
        let spare = self.spare.iter().position(|b| b.spec() == of.spec());
        let made = match spare {
            Some(k) => Ok(self.spare.swap_remove(k)),
            None => Buffer::new(BufferSpec::clone(of.spec())),
        };
        let made = made.and_then(|b| if copied { copy(of, &b).map(|()| b) } else { Ok(b) });
        made.map_err(|e| bind_error("program", self.table.buffers[id.0].name.clone(), e.to_string()))
    }

    fn copies(&mut self, ids: &[BufferId]) -> Result<Vec<(BufferId, Buffer)>, Error> {
        ids.iter().map(|id| Ok((*id, self.like(*id, true)?))).collect()
    }

    fn put_back(&mut self, state: Vec<(BufferId, Buffer)>) {
        for (id, old) in state {
            self.spare.push(std::mem::replace(&mut self.table.buffers[id.0].buffer, old));
        }
    }

    /// Runs steps that nobody goes back through.
    fn plain(&mut self, steps: &[Node]) -> Result<(), Error> {
        for step in steps {
            match step {
                Node::Run { call, .. } => self.call(call)?,
                Node::Swap(a, b) => self.table.swap(*a, *b)?,
                Node::Repeat { count, body, .. } => (0..*count).try_for_each(|_| self.plain(body))?,
            }
        }
        Ok(())
    }

    fn forward(&mut self, steps: &[Node], log: &mut Vec<Entry>) -> Result<(), Error> {
        for step in steps {
            match step {
                Node::Run { call, written, .. } => {
                    let mut aside = vec![];
                    for (id, is_read) in written {
                        let new = self.like(*id, *is_read)?;
                        aside.push((*id, std::mem::replace(&mut self.table.buffers[id.0].buffer, new)));
                    }
                    self.call(call)?;
                    log.push(Entry::Run(aside));
                }
                Node::Swap(a, b) => {
                    self.table.swap(*a, *b)?;
                    log.push(Entry::Swap);
                }
                Node::Repeat { count, every, until, body, written, carried } => {
                    if self.table.scalar(*until) != Some(0.0) {
                        let name = self.table.buffers[until.0].name.clone();
                        let why =
                            "ends a repetition that is run backwards, whose count must be fixed: let it be 0";
                        return Err(bind_error("program", name, why));
                    }
                    let mut states = vec![];
                    for i in 0..*count {
                        if i % every == 0 {
                            states.push(self.copies(if i == 0 { written } else { carried })?);
                        }
                        self.plain(body)?;
                    }
                    log.push(Entry::Repeat(states));
                }
            }
        }
        Ok(())
    }

    /// Goes back through steps whose entries are the last of the log.
    fn backward(&mut self, steps: &[Node], log: &mut Vec<Entry>) -> Result<(), Error> {
        for step in steps.iter().rev() {
            match (step, log.pop()) {
                (Node::Run { back, results, cleared, .. }, Some(Entry::Run(aside))) => {
                    self.put_back(aside);
                    back.iter().try_for_each(|call| self.call(call))?;
                    results.iter().try_for_each(|(d, new)| self.table.swap(*d, *new))?;
                    cleared.iter().for_each(|d| self.table.buffer(*d).clear());
                }
                (Node::Swap(a, b), Some(Entry::Swap)) => {
                    self.table.swap(*a, *b)?;
                    if let Some((a, b)) = self.adjoints.get(a).zip(self.adjoints.get(b)) {
                        self.table.swap(*a, *b)?;
                    }
                }
                (Node::Repeat { count, every, body, .. }, Some(Entry::Repeat(mut states))) => {
                    let mut end = *count;
                    while let Some(state) = states.pop() {
                        self.put_back(state);
                        let start = states.len() * every;
                        let mut inner = vec![];
                        for _ in start..end {
                            self.forward(body, &mut inner)?;
                        }
                        for _ in start..end {
                            self.backward(body, &mut inner)?;
                        }
                        end = start;
                    }
                }
                _ => return Err(bind_error("program", "backward", "the last run forward did not end")),
            }
        }
        Ok(())
    }
}

/// Copies the values of a buffer into one that looks alike.
fn copy(from: &Buffer, to: &Buffer) -> Result<(), BufferError> {
    match from.spec().ty {
        ScalarType::I64 => to.copy_from(&from.to_vec::<i64>()),
        ScalarType::U64 => to.copy_from(&from.to_vec::<u64>()),
        _ => to.copy_from(&from.to_vec::<f64>()),
    }
}
