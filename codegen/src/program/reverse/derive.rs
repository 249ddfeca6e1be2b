//! The steps of a program with their adjoints.

use crate::compile::Compiled;
use crate::error::{Error, bind_error};
use crate::expr::{Expr, Name};
use crate::func::{Func, Input, Output, Pipeline, Var};
use crate::gradient::{propagate_adjoints, pruned, schedule};
use crate::program::reverse::{Call, Node};
use crate::program::step::{BufferId, Step};
use crate::program::table::Table;
use crate::runtime::{Buffer, BufferSpec};
use crate::schedule::Schedule;
use indexmap::{IndexMap, IndexSet};

/// Adjoints, each with the buffer of its new values.
type Renewed = Vec<(BufferId, BufferId)>;

/// Makes [`Node`]s of steps, and adds adjoints to the table.
pub(super) struct Deriver<'d> {
    pipelines: &'d [(Pipeline, Schedule)],
    codes: &'d [Compiled],
    table: &'d mut Table,
    every: Option<usize>,
    /// Buffers that depend on what is derived for, with their adjoints.
    adjoints: IndexMap<BufferId, BufferId>,
    /// Per adjoint, a buffer for its next values.
    next: IndexMap<BufferId, BufferId>,
    /// Adjoint pipelines, each once for the sizes of its buffers: the runs of equal adjoints share it.
    jobs: Vec<(Pipeline, Schedule)>,
    sizes: Vec<Vec<(Name, Vec<i32>)>>,
}

impl<'d> Deriver<'d> {
    pub(super) fn new(
        pipelines: &'d [(Pipeline, Schedule)],
        codes: &'d [Compiled],
        table: &'d mut Table,
        every: Option<usize>,
    ) -> Deriver<'d> {
        let (adjoints, next) = (IndexMap::new(), IndexMap::new());
        Deriver { pipelines, codes, table, every, adjoints, next, jobs: vec![], sizes: vec![] }
    }

    pub(super) fn end(self) -> (Vec<(Pipeline, Schedule)>, IndexMap<BufferId, BufferId>) {
        (self.jobs, self.adjoints)
    }

    fn name(&self, id: BufferId) -> Name {
        self.table.buffers[id.0].name.clone()
    }

    /// Finds the buffers of floats that depend on `wrt`.
    pub(super) fn vary(&mut self, steps: &[Step], wrt: &[BufferId]) -> Result<(), Error> {
        for id in wrt {
            match self.table.buffers.get(id.0) {
                None => {
                    return Err(bind_error("program", format!("buffer {}", id.0), "there is no such buffer"));
                }
                Some(e) if !e.buffer.spec().ty.is_float() => {
                    return Err(bind_error(
                        "program",
                        e.name.clone(),
                        "is of integers, which have no derivative",
                    ));
                }
                Some(_) => self.add(*id)?,
            }
        }
        loop {
            let before = self.adjoints.len();
            self.spread(steps)?;
            if self.adjoints.len() == before {
                return Ok(());
            }
        }
    }

    fn spread(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            match step {
                Step::Run { pipeline, bindings, .. } => {
                    if bindings.iter().any(|(name, id)| {
                        self.adjoints.contains_key(id) && !self.is_written(pipeline.0, name)
                    }) {
                        for (name, id) in bindings {
                            if self.is_written(pipeline.0, name)
                                && self.table.buffer(*id).spec().ty.is_float()
                            {
                                self.add(*id)?;
                            }
                        }
                    }
                }
                Step::Swap(a, b) => {
                    if [a, b].iter().any(|id| self.adjoints.contains_key(*id)) {
                        self.add(*a)?;
                        self.add(*b)?;
                    }
                }
                Step::Repeat { body, .. } => self.spread(body)?,
                Step::Host(name) => {
                    return Err(bind_error("program", name.clone(), "a step of the host has no adjoint"));
                }
            }
        }
        Ok(())
    }

    /// Adds an adjoint.
    fn add(&mut self, id: BufferId) -> Result<(), Error> {
        if self.adjoints.contains_key(&id) {
            return Ok(());
        }
        let name = self.name(id);
        let spec = BufferSpec::clone(self.table.buffer(id).spec());
        let mut new = |name: String| match Buffer::new(spec.clone()) {
            Ok(b) => Ok(self.table.add(name, b, true)),
            Err(e) => Err(bind_error("program", name, e.to_string())),
        };
        let (d, next) = (new(format!("d_{name}"))?, new(format!("next_d_{name}"))?);
        self.adjoints.insert(id, d);
        self.next.insert(d, next);
        Ok(())
    }

    /// Is `name` an output of this pipeline?
    fn is_written(&self, pipeline: usize, name: &Name) -> bool {
        self.codes[pipeline].signature().buffers.iter().any(|s| s.written && s.name == *name)
    }

    pub(super) fn nodes(&mut self, steps: &[Step]) -> Result<Vec<Node>, Error> {
        steps.iter().map(|step| self.node(step)).collect()
    }

    fn node(&mut self, step: &Step) -> Result<Node, Error> {
        match step {
            Step::Run { pipeline, bindings, params } => {
                let k = pipeline.0;
                let (outputs, inputs): (Vec<_>, Vec<_>) =
                    bindings.iter().cloned().partition(|(name, _)| self.is_written(k, name));
                let is_read = |id: &BufferId| inputs.iter().any(|(_, other)| other == id);
                let written = outputs.iter().map(|(_, id)| (*id, is_read(id))).collect();
                let call = Call { code: k, bindings: bindings.clone(), params: params.clone() };
                let (mut back, results) = self.back(k, &inputs, &outputs)?;
                if let Some(back) = &mut back {
                    back.params = params
                        .iter()
                        .filter(|(n, _)| self.jobs[back.code].0.params.contains_key(n))
                        .cloned()
                        .collect();
                    back.code += self.codes.len();
                }
                let d = outputs.iter().filter_map(|(_, id)| self.adjoints.get(id).copied());
                let cleared = d.filter(|d| !results.iter().any(|(r, _)| r == d)).collect();
                Ok(Node::Run { call, written, back, results, cleared })
            }
            Step::Swap(a, b) => Ok(Node::Swap(*a, *b)),
            Step::Repeat { max, until, body } => {
                let mut uses = Uses::default();
                self.uses(body, &mut uses);
                if uses.written.contains(until) {
                    let why = "ends a repetition that its body writes: only repetitions of fixed count have an adjoint";
                    return Err(bind_error("program", self.name(*until), why));
                }
                let every = self.every.unwrap_or((*max as f64).sqrt().ceil() as usize).max(1);
                let body = self.nodes(body)?;
                let written: Vec<BufferId> = uses.written.into_iter().collect();
                let carried =
                    written.iter().copied().filter(|id| uses.swaps || uses.carried.contains(id)).collect();
                Ok(Node::Repeat { count: *max, every, until: *until, body, written, carried })
            }
            Step::Host(name) => Err(bind_error("program", name.clone(), "a step of the host has no adjoint")),
        }
    }

    fn uses(&self, steps: &[Step], uses: &mut Uses) {
        for step in steps {
            match step {
                Step::Run { pipeline, bindings, .. } => {
                    let (written, read): (Vec<_>, Vec<_>) =
                        bindings.iter().partition(|(name, _)| self.is_written(pipeline.0, name));
                    let before = read.into_iter().map(|(_, id)| *id).filter(|id| !uses.written.contains(id));
                    uses.carried.extend(before.collect::<Vec<_>>());
                    uses.written.extend(written.into_iter().map(|(_, id)| *id));
                }
                Step::Swap(a, b) => {
                    uses.swaps = true;
                    uses.written.extend([*a, *b]);
                }
                Step::Repeat { body, .. } => self.uses(body, uses),
                Step::Host(_) => {}
            }
        }
    }

    /// The adjoint of a run: a pipeline that takes what the run took and the adjoints of its outputs, and gives new values for the adjoints of
    /// its inputs. Its number among `jobs`; and the adjoints, each with the buffer of its new values.
    fn back(
        &mut self,
        k: usize,
        inputs: &[(Name, BufferId)],
        outputs: &[(Name, BufferId)],
    ) -> Result<(Option<Call>, Renewed), Error> {
        let mut p = self.pipelines[k].0.clone();
        p.name = format!("{}_adjoint", p.name);
        let mut bindings = inputs.to_vec();
        let mut seeds = vec![];
        for o in p.outputs.clone() {
            let types = p.funcs[&o.func].types();
            let Some((_, id)) = outputs.iter().find(|(name, _)| *name == o.func) else {
                let has_adjoint = |(name, id): &&(Name, BufferId)| {
                    name.strip_prefix(&*o.func).is_some_and(|r| r.starts_with('.'))
                        && self.adjoints.contains_key(id)
                };
                match outputs.iter().find(has_adjoint) {
                    Some((name, _)) => {
                        return Err(bind_error(
                            &p.name,
                            name.clone(),
                            "has neighbours of another type: no adjoint in programs",
                        ));
                    }
                    None => continue,
                }
            };
            if let Some(d) = self.adjoints.get(id) {
                let seed = beside(&mut p, "w", &o.func, &types, &o);
                bindings.push((seed.name.clone(), *d));
                seeds.push((o.func.to_string(), seed.name.to_string()));
            }
        }
        let mut targets: IndexMap<BufferId, Vec<Name>> = IndexMap::new();
        for (name, id) in inputs.iter().filter(|(_, id)| self.adjoints.contains_key(id)) {
            targets.entry(*id).or_default().push(name.clone());
        }
        if seeds.is_empty() || targets.is_empty() {
            return Ok((None, vec![]));
        }
        let seeds: Vec<(&str, &str)> = seeds.iter().map(|(o, w)| (o.as_str(), w.as_str())).collect();
        let wrt: Vec<&str> = targets.values().flatten().map(|n| &**n).collect();
        let adjoints = propagate_adjoints(&mut p, &seeds, &wrt)?;
        p.outputs.clear();
        let mut results = vec![];
        for (id, names) in &targets {
            let input = p.inputs[&names[0]].clone();
            let parts: Vec<&Func> = names.iter().filter_map(|n| adjoints.of(n)).collect();
            let is_kept = !outputs.iter().any(|(_, other)| other == id);
            if parts.is_empty() && is_kept {
                continue;
            }
            let d = self.adjoints[id];
            let shape = Output {
                func: input.name.clone(),
                layout: input.layout,
                constraints: input.constraints.clone(),
                halo: input.halo.clone(),
            };
            let vars: Vec<Var> = (0..input.dims).map(|d| Var::new(format!("x{d}"))).collect();
            let own: Vec<Expr> = vars.iter().map(Var::expr).collect();
            let old = is_kept.then(|| beside(&mut p, "old", &input.name, &input.types, &shape));
            bindings.extend(old.iter().map(|old| (old.name.clone(), d)));
            let value = |(j, ty): (usize, &crate::ScalarType)| {
                let terms = parts.iter().map(|f| f.at(&own, j));
                let sum = old.iter().map(|old| old.at(&own, j)).chain(terms).reduce(|a, b| a + b);
                sum.unwrap_or_else(|| Expr::constant(*ty, 0.0))
            };
            let values = input.types.iter().enumerate().map(value).collect();
            let sum = p.func(Func::new(unused(&p, &format!("new_d_{}", input.name)), &vars, values));
            bindings.push((sum.name.clone(), self.next[&d]));
            p.outputs.push(Output { func: sum.name, ..shape });
            results.push((d, self.next[&d]));
        }
        let p = pruned(p);
        bindings.retain(|(name, _)| p.inputs.contains_key(name) || p.outputs.iter().any(|o| o.func == *name));
        let size = |id: &BufferId| self.table.buffer(*id).spec().extents.to_vec();
        let sizes = bindings.iter().map(|(n, id)| (n.clone(), size(id))).collect();
        Ok((Some(Call { code: self.job(p, sizes)?, bindings, params: vec![] }), results))
    }

    /// The number of a pipeline among `jobs`, to which it is added if it is new.
    fn job(&mut self, p: Pipeline, sizes: Vec<(Name, Vec<i32>)>) -> Result<usize, Error> {
        let mut known = self.jobs.iter().zip(&self.sizes);
        if let Some(k) = known.position(|((known, _), of)| *known == p && *of == sizes) {
            return Ok(k);
        }
        let estimates: Vec<(&str, &[i32])> = sizes.iter().map(|(n, size)| (&**n, &size[..])).collect();
        let made = schedule(&p, &estimates, &[], &[])?;
        self.jobs.push((p, made));
        self.sizes.push(sizes);
        Ok(self.jobs.len() - 1)
    }
}

/// Buffers that steps use.
#[derive(Default)]
struct Uses {
    written: IndexSet<BufferId>,
    /// Read before anything was written to them.
    carried: IndexSet<BufferId>,
    swaps: bool,
}

/// Adds an input for values beside those of `of`, of the same shape.
fn beside(p: &mut Pipeline, what: &str, of: &Name, types: &[crate::ScalarType], like: &Output) -> Input {
    let name = unused(p, &format!("{what}_{of}"));
    let mut input = Input::new(name, types, like.halo.len());
    (input.layout, input.constraints, input.halo) =
        (like.layout, like.constraints.clone(), like.halo.clone());
    p.input(input)
}

/// `name`, with underscores behind if the pipeline has it.
fn unused(p: &Pipeline, name: &str) -> String {
    let mut name = name.to_string();
    while p.funcs.contains_key(&*name) || p.inputs.contains_key(&*name) || p.params.contains_key(&*name) {
        name.push('_');
    }
    name
}
