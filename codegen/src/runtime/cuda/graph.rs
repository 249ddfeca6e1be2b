//! Graphs: chains of kernels that a device runs as one, with loops whose end it decides itself.
//!
//! ```text
//! Graph::new -> launch, launch, repeat_while -> [Body: launch, launch] -> launch -> ready -> run, run, ...
//! ```
//! Arguments are fixed when a kernel is added: what changes from run to run lies in memory.

use super::device::Device;
use super::driver::Handle;
use super::module::{Function, Shape, pointers};
use crate::error::{CudaError, Version};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUgraphConditionalNodeType, CUgraphNode, CUgraphNodeType};

/// The least driver whose graphs hold loops.
const LOOPS: Version = Version(12040);
/// The driver's flag by which every run of a graph starts with a condition's first value.
const ASSIGN_DEFAULT: u32 = 1;

/// A chain of kernels that is being put together.
#[derive(Debug)]
pub struct Graph {
    device: Device,
    chain: Chain,
    /// Kernels of the chain and of all loops, whose modules stay loaded.
    functions: Vec<Function>,
}

/// The inside of a loop of a graph: a chain too.
#[derive(Debug)]
pub struct Body<'g> {
    graph: &'g mut Graph,
    chain: Chain,
}

/// A condition of a graph's loop. Kernels set it by its number (PTX: `cudaGraphSetConditional`), on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition(u64);

impl Condition {
    /// The number that is handed to kernels.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// A driver's graph, the whole or the inside of a loop, and its last node, null at first.
#[derive(Debug)]
struct Chain {
    graph: Handle<sys::CUgraph_st>,
    last: Handle<sys::CUgraphNode_st>,
}

/// A graph that can be run, any number of times.
#[derive(Debug)]
pub struct ReadyGraph {
    graph: Graph,
    ready: Handle<sys::CUgraphExec_st>,
}

impl Device {
    /// True if graphs of this device may hold loops: the driver supports CUDA 12.4.
    pub fn has_loops(&self) -> bool {
        self.info().driver >= LOOPS
    }
}

impl Chain {
    /// The nodes that the next one comes behind: one, or none.
    fn before(&self) -> (*const CUgraphNode, usize) {
        (&self.last.0, usize::from(!self.last.0.is_null()))
    }

    fn launch(&mut self, function: &Function, shape: Shape, arguments: &[u64]) -> Result<(), CudaError> {
        let device = function.device();
        let _entered = device.enter()?;
        let mut pointers = pointers(arguments);
        let kernel = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function.handle(),
            gridDimX: shape.grid[0],
            gridDimY: shape.grid[1],
            gridDimZ: shape.grid[2],
            blockDimX: shape.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let (mut node, (before, count)) = (std::ptr::null_mut(), self.before());
        // SAFETY: the graph lives, the node before is of it, and the driver copies the arguments before it returns; of their number
        // and kinds the caller says so.
        let code = unsafe { sys::cuGraphAddKernelNode_v2(&mut node, self.graph.0, before, count, &kernel) };
        device.check("cuGraphAddKernelNode", code.result())?;
        self.last = Handle(node);
        Ok(())
    }

    /// Adds a loop, or what runs once at most, and returns its inside.
    fn inside(
        &mut self,
        device: &Device,
        condition: Condition,
        kind: CUgraphConditionalNodeType,
    ) -> Result<Chain, CudaError> {
        let _entered = device.enter()?;
        // SAFETY: numbers and null pointers are valid everywhere in it.
        let mut node: sys::CUgraphNodeParams = unsafe { std::mem::zeroed() };
        node.type_ = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        node.__bindgen_anon_1.conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
            handle: condition.0,
            type_: kind,
            size: 1,
            phGraph_out: std::ptr::null_mut(),
            ctx: device.context(),
        };
        let (mut made, (before, count)) = (std::ptr::null_mut(), self.before());
        // SAFETY: the graph lives, the node before is of it, and there are no ports.
        let code = unsafe {
            let graph = self.graph.0;
            sys::cuGraphAddNode_v2(&mut made, graph, before, std::ptr::null(), count, &mut node)
        };
        let call = "cuGraphAddNode";
        device.check(call, code.result())?;
        self.last = Handle(made);
        // SAFETY: the driver has put the address of its array there, which holds one graph and lives as long as the node.
        let inside = unsafe { node.__bindgen_anon_1.conditional.phGraph_out.as_ref() };
        let none = || CudaError::Call { call, code: "a loop without an inside".into() };
        let inside = *inside.ok_or_else(none)?;
        Ok(Chain { graph: Handle(inside), last: Handle(std::ptr::null_mut()) })
    }
}

impl Graph {
    /// An empty chain.
    pub fn new(device: &Device) -> Result<Graph, CudaError> {
        let _entered = device.enter()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: writes a pointer.
        let code = unsafe { sys::cuGraphCreate(&mut graph, 0) };
        device.check("cuGraphCreate", code.result())?;
        let chain = Chain { graph: Handle(graph), last: Handle(std::ptr::null_mut()) };
        Ok(Graph { device: device.clone(), chain, functions: vec![] })
    }

    /// Adds a kernel behind the last one; nothing is added if the shape is empty.
    ///
    /// # Errors
    /// As of [`Function::launch`].
    ///
    /// # Safety
    /// As of [`Function::launch`], for as long as the graph is run.
    pub unsafe fn launch(
        &mut self,
        function: &Function,
        shape: Shape,
        arguments: &[u64],
    ) -> Result<(), CudaError> {
        if self.takes(function, shape)? {
            self.chain.launch(function, shape, arguments)?;
        }
        Ok(())
    }

    /// A condition, 1 whenever the graph begins to run.
    ///
    /// # Errors
    /// The driver has no loops ([`Device::has_loops`]), or the device fails.
    pub fn condition(&mut self) -> Result<Condition, CudaError> {
        let (device, call) = (&self.device, "cuGraphConditionalHandleCreate");
        if !device.has_loops() {
            let code = format!("the driver supports CUDA {}, {LOOPS} is needed", device.info().driver);
            return Err(CudaError::Call { call, code });
        }
        let _entered = device.enter()?;
        let mut number = 0;
        let (graph, context) = (self.chain.graph.0, device.context());
        // SAFETY: the graph lives; writes a number.
        let code =
            unsafe { sys::cuGraphConditionalHandleCreate(&mut number, graph, context, 1, ASSIGN_DEFAULT) };
        device.check(call, code.result())?;
        Ok(Condition(number))
    }

    /// Adds a loop behind the last kernel, which runs as long as a condition of this graph is not 0, each time from the beginning of the
    /// body to its end. A condition serves one loop.
    pub fn repeat_while(&mut self, condition: Condition) -> Result<Body<'_>, CudaError> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;
        let chain = self.chain.inside(&self.device, condition, kind)?;
        Ok(Body { graph: self, chain })
    }

    /// Makes it fit to be run.
    pub fn ready(self) -> Result<ReadyGraph, CudaError> {
        let _entered = self.device.enter()?;
        // SAFETY: the graph lives.
        let made =
            unsafe { result::graph::instantiate(self.chain.graph.0, sys::CUgraphInstantiate_flags(0)) };
        let ready = Handle(self.device.check("cuGraphInstantiate", made)?);
        self.device.count_graph();
        Ok(ReadyGraph { graph: self, ready })
    }

    /// Checks a launch, and keeps its function unless there is nothing to do.
    fn takes(&mut self, function: &Function, shape: Shape) -> Result<bool, CudaError> {
        function.check(shape)?;
        if !shape.is_empty() {
            self.functions.push(function.clone());
        }
        Ok(!shape.is_empty())
    }
}

impl Body<'_> {
    /// Adds a part behind the last kernel that runs if a condition of this graph is not 0: the driver asks once, where it asks for a loop again behind
    /// every turn. A condition serves one part.
    pub fn only_if(&mut self, condition: Condition) -> Result<Body<'_>, CudaError> {
        let kind = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF;
        let chain = self.chain.inside(&self.graph.device, condition, kind)?;
        Ok(Body { graph: self.graph, chain })
    }

    /// As [`Graph::launch`], inside of the loop.
    ///
    /// # Errors
    /// As of [`Function::launch`].
    ///
    /// # Safety
    /// As of [`Function::launch`], for as long as the graph is run.
    pub unsafe fn launch(
        &mut self,
        function: &Function,
        shape: Shape,
        arguments: &[u64],
    ) -> Result<(), CudaError> {
        if self.graph.takes(function, shape)? {
            self.chain.launch(function, shape, arguments)?;
        }
        Ok(())
    }
}

impl ReadyGraph {
    /// Runs it, behind everything that the device was asked for before, and does not wait.
    ///
    /// # Errors
    /// The device fails; failures of kernels come with what waits for them.
    pub fn run(&self) -> Result<(), CudaError> {
        let device = &self.graph.device;
        let _entered = device.enter()?;
        if let Some(last) = self.graph.functions.last() {
            device.count_launch(last.shared_name());
        }
        // SAFETY: graph and stream live.
        let launched = unsafe { result::graph::launch(self.ready.0, device.stream()) };
        device.check("cuGraphLaunch", launched)
    }
}

impl Drop for ReadyGraph {
    fn drop(&mut self) {
        let device = &self.graph.device;
        // A run may still be on its way.
        // SAFETY: the stream lives.
        device.free(|| unsafe { result::stream::synchronize(device.stream()) });
        // SAFETY: made once, destroyed once.
        device.free(|| unsafe { result::graph::exec_destroy(self.ready.0) });
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, with the insides of its loops.
        self.device.free(|| unsafe { result::graph::destroy(self.chain.graph.0) });
    }
}
