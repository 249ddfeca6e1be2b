//! Graphs: works with dependencies, run in the worst order that these allow.

use crate::driver::{Driver, complain};
use crate::objects::*;
use crate::status::*;
use std::sync::Arc;

/// A graph that a program builds.
pub struct Graph {
    pub context: Handle,
    pub nodes: Vec<Node>,
    /// The graph in which this one is the body of a node.
    pub parent: Option<Handle>,
}

pub struct Node {
    pub handle: Handle,
    pub kind: Kind,
    /// Places of earlier nodes.
    pub after: Vec<usize>,
}

#[derive(Clone)]
pub enum Kind {
    Empty,
    Work(Work),
    /// A body that runs while, or if, the condition of a handle is not zero.
    Conditional {
        condition: u64,
        repeats: bool,
        /// The program is given its address, as the driver's own list of bodies, which there is as long as the node.
        body: Arc<Handle>,
    },
    Child(Handle),
}

/// The condition of a handle.
pub struct Condition {
    pub graph: Handle,
    pub value: u32,
    /// Value at the start of each launch, if it is set then.
    pub initial: Option<u32>,
}

/// A graph as it was when it was instantiated.
#[derive(Clone)]
pub struct Executable {
    steps: Vec<Step>,
}

#[derive(Clone)]
struct Step {
    node: Handle,
    kind: StepKind,
    after: Vec<usize>,
}

#[derive(Clone)]
enum StepKind {
    Empty,
    Work(Work),
    Conditional { condition: u64, repeats: bool, body: Executable },
    Child(Executable),
}

/// An executable graph that a program holds.
pub struct Instance {
    pub context: Handle,
    pub graph: Arc<Executable>,
}

impl Executable {
    /// Replaces the work of a node, in a body too; false where it is not there.
    pub fn set(&mut self, node: Handle, work: &Work) -> bool {
        self.steps.iter_mut().any(|step| match &mut step.kind {
            StepKind::Work(old) if step.node == node => {
                *old = work.clone();
                true
            }
            StepKind::Conditional { body, .. } | StepKind::Child(body) => body.set(node, work),
            _ => false,
        })
    }

    /// True where another graph has the same nodes but for their arguments.
    pub fn matches(&self, other: &Executable) -> bool {
        let same = |(a, b): (&Step, &Step)| {
            a.after == b.after
                && match (&a.kind, &b.kind) {
                    (StepKind::Empty, StepKind::Empty) => true,
                    (StepKind::Work(a), StepKind::Work(b)) => {
                        std::mem::discriminant(a) == std::mem::discriminant(b)
                    }
                    (StepKind::Child(a), StepKind::Child(b)) => a.matches(b),
                    // Conditional nodes cannot be updated.
                    _ => false,
                }
        };
        self.steps.len() == other.steps.len() && self.steps.iter().zip(&other.steps).all(same)
    }
}

impl Driver {
    pub fn new_graph(&mut self, context: Handle, parent: Option<Handle>) -> Handle {
        let handle = self.handle();
        self.graphs.insert(handle, Graph { context, nodes: vec![], parent });
        handle
    }

    /// Adds a node behind others of the graph.
    pub fn add_node(&mut self, graph: Handle, after: &[Handle], kind: Kind) -> Result<Handle, Status> {
        let handle = self.handle();
        let graph = self.graphs.get_mut(graph)?;
        let place = |h: &Handle| graph.nodes.iter().position(|n| n.handle == *h).ok_or(INVALID_VALUE);
        let after = after.iter().map(place).collect::<Result<Vec<usize>, Status>>()?;
        graph.nodes.push(Node { handle, kind, after });
        Ok(handle)
    }

    /// Gives a kernel the arguments that it has in the graph already, where that defect is rehearsed.
    pub fn stale_arguments(&self, graph: Handle, work: &mut Work) -> Done {
        let Work::Kernel(own) = work else { return Ok(()) };
        if !self.settings.stale || own.geometry.block == [1; 3] {
            return Ok(());
        }
        let root = self.root(graph);
        for (handle, graph) in self.graphs.iter() {
            let found = graph.nodes.iter().find_map(|node| match &node.kind {
                Kind::Work(Work::Kernel(k))
                    if Arc::ptr_eq(&k.module, &own.module) && k.kernel == own.kernel =>
                {
                    Some(k)
                }
                _ => None,
            });
            if let Some(found) = found.filter(|_| self.root(handle) == root) {
                own.params.clone_from(&found.params);
                return Ok(());
            }
        }
        Ok(())
    }

    /// The node with a handle.
    pub fn node(&mut self, handle: Handle) -> Result<&mut Node, Status> {
        self.graphs.values_mut().flat_map(|g| &mut g.nodes).find(|n| n.handle == handle).ok_or(INVALID_VALUE)
    }

    /// Removes a graph with the bodies of its nodes.
    pub fn destroy_graph(&mut self, graph: Handle) -> Done {
        let dead = self.graphs.remove(graph)?;
        for node in dead.nodes {
            match node.kind {
                Kind::Conditional { body, .. } => self.destroy_graph(*body)?,
                Kind::Child(body) => self.destroy_graph(body)?,
                Kind::Empty | Kind::Work(_) => (),
            }
        }
        self.conditions.retain(|_, c| c.graph != graph);
        Ok(())
    }

    /// The graph as it is now.
    pub fn executable(&self, graph: Handle) -> Result<Executable, Status> {
        let step = |n: &Node| {
            let kind = match &n.kind {
                Kind::Empty => StepKind::Empty,
                Kind::Work(work) => StepKind::Work(work.clone()),
                Kind::Conditional { condition, repeats, body } => StepKind::Conditional {
                    condition: *condition,
                    repeats: *repeats,
                    body: self.executable(**body)?,
                },
                Kind::Child(body) => StepKind::Child(self.executable(*body)?),
            };
            Ok(Step { node: n.handle, kind, after: n.after.clone() })
        };
        let steps = self.graphs.get(graph)?.nodes.iter().map(step).collect::<Result<_, Status>>()?;
        Ok(Executable { steps })
    }

    /// A copy of a graph, as a child node has one.
    pub fn clone_graph(&mut self, graph: Handle, parent: Handle) -> Result<Handle, Status> {
        let context = self.graphs.get(graph)?.context;
        let copy = self.new_graph(context, Some(parent));
        let nodes = self
            .graphs
            .get(graph)?
            .nodes
            .iter()
            .map(|n| (n.kind.clone(), n.after.clone()))
            .collect::<Vec<_>>();
        for (kind, after) in nodes {
            if let Kind::Conditional { .. } = kind {
                return Err(NOT_SUPPORTED);
            }
            let handle = self.handle();
            self.graphs.get_mut(copy)?.nodes.push(Node { handle, kind, after });
        }
        Ok(copy)
    }

    /// Work of a captured stream becomes a node behind its last.
    pub fn capture(&mut self, stream: Handle, work: Work) -> Done {
        let Some(Capture { graph, last }) = &self.streams.get(stream)?.capture else {
            return Err(ILLEGAL_STATE);
        };
        let kind = match work {
            Work::Kernel(_)
            | Work::ToDevice { .. }
            | Work::ToHost { .. }
            | Work::Within { .. }
            | Work::Fill { .. } => Kind::Work(work),
            _ => return Err(STREAM_CAPTURE_UNSUPPORTED),
        };
        let (graph, after) = (*graph, last.iter().copied().collect::<Vec<Handle>>());
        let node = self.add_node(graph, &after, kind)?;
        if let Some(capture) = &mut self.streams.get_mut(stream)?.capture {
            capture.last = Some(node);
        }
        Ok(())
    }

    /// Sets a condition, as a kernel does it.
    pub fn set_condition(&mut self, handle: u64, value: u32) -> Done {
        let Some(condition) = self.conditions.get_mut(&handle) else {
            complain(&format!("cudaGraphSetConditional({handle:#x}, {value}): there is no such handle"));
            return Err(LAUNCH_FAILED);
        };
        condition.value = value;
        Ok(())
    }

    /// Runs a graph that was launched.
    pub fn run_graph(&mut self, stream: Handle, context: Handle, graph: &Executable) -> Done {
        self.counters.graphs += 1;
        self.reset_conditions(graph);
        self.run_steps(stream, context, graph)
    }

    fn reset_conditions(&mut self, graph: &Executable) {
        for step in &graph.steps {
            match &step.kind {
                StepKind::Conditional { condition, body, .. } => {
                    if let Some(c) = self.conditions.get_mut(condition)
                        && let Some(initial) = c.initial
                    {
                        c.value = initial;
                    }
                    self.reset_conditions(body);
                }
                StepKind::Child(body) => self.reset_conditions(body),
                _ => {}
            }
        }
    }

    /// Runs steps, always the youngest of those that can run.
    fn run_steps(&mut self, stream: Handle, context: Handle, graph: &Executable) -> Done {
        let mut done = vec![false; graph.steps.len()];
        loop {
            let ready = |k: &usize| !done[*k] && graph.steps[*k].after.iter().all(|a| done[*a]);
            let Some(next) = (0..graph.steps.len()).rev().find(ready) else { return Ok(()) };
            match &graph.steps[next].kind {
                StepKind::Empty => {}
                StepKind::Work(work) => self.execute(stream, context, work.clone())?,
                StepKind::Child(body) => self.run_steps(stream, context, body)?,
                StepKind::Conditional { condition, repeats, body } => {
                    self.run_conditional(stream, context, (*condition, *repeats), body)?;
                }
            }
            done[next] = true;
        }
    }

    fn run_conditional(
        &mut self,
        stream: Handle,
        context: Handle,
        (condition, repeats): (u64, bool),
        body: &Executable,
    ) -> Done {
        let endless = self.settings.endless;
        for _ in 0..endless {
            if self.conditions.get(&condition).ok_or(LAUNCH_FAILED)?.value == 0 {
                return Ok(());
            }
            self.run_steps(stream, context, body)?;
            if !repeats {
                return Ok(());
            }
        }
        complain(&format!("a while node did not end within {endless} turns"));
        Err(LAUNCH_TIMEOUT)
    }
}
