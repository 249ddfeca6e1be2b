//! Graphs and captures.

use super::exports;
use crate::driver::Driver;
use crate::graph::{Condition, Instance, Kind};
use crate::objects::*;
use crate::raw::{Host, In, Out, out_at};
use crate::status::*;
use cudarc::driver::sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS,
    CUgraphExecUpdateResultInfo, CUgraphNodeParams, CUmemorytype,
};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use sumsq_ptx::Geometry;

/// `CU_GRAPH_COND_ASSIGN_DEFAULT`.
const ASSIGN_DEFAULT: c_uint = 1;

/// Values of `CUgraphNodeType`.
const KERNEL: u32 = 0;
const MEMCPY: u32 = 1;
const MEMSET: u32 = 2;
const EMPTY: u32 = 5;
const CONDITIONAL: u32 = 13;

exports! {
    fn cuGraphCreate(driver, graph: Out<Handle>, flags: c_uint) {
        let context = driver.current()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let handle = driver.new_graph(context, None);
        graph.put(handle)
    }

    fn cuGraphDestroy(driver, graph: Handle) {
        if driver.graphs.get(graph).map_err(|_| INVALID_VALUE)?.parent.is_some() {
            return Err(INVALID_VALUE);
        }
        driver.destroy_graph(graph)
    }

    fn cuGraphAddEmptyNode(driver, node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        let handle = driver.add_node(graph, &after.all(count)?, Kind::Empty)?;
        node.put(handle)
    }

    fn cuGraphAddKernelNode_v2(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        params: In<CUDA_KERNEL_NODE_PARAMS>,
    ) {
        let mut work = driver.kernel_node(&params.get()?)?;
        driver.stale_arguments(graph, &mut work)?;
        let handle = driver.add_node(graph, &after.all(count)?, Kind::Work(work))?;
        node.put(handle)
    }

    fn cuGraphAddMemcpyNode(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        params: In<CUDA_MEMCPY3D>,
        _context: Handle,
    ) {
        let work = driver.copy_node(&params.get()?)?;
        let handle = driver.add_node(graph, &after.all(count)?, Kind::Work(work))?;
        node.put(handle)
    }

    fn cuGraphAddMemsetNode(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        params: In<CUDA_MEMSET_NODE_PARAMS>,
        _context: Handle,
    ) {
        let p = params.get()?;
        let work = driver.fill_node(p.dst, p.value, p.elementSize, p.width, p.height)?;
        let handle = driver.add_node(graph, &after.all(count)?, Kind::Work(work))?;
        node.put(handle)
    }

    fn cuGraphAddChildGraphNode(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        child: Handle,
    ) {
        let body = driver.clone_graph(child, graph)?;
        let handle = driver.add_node(graph, &after.all(count)?, Kind::Child(body))?;
        node.put(handle)
    }

    fn cuGraphAddNode(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        params: In<CUgraphNodeParams>,
    ) {
        let handle = driver.any_node(graph, &after.all(count)?, params)?;
        node.put(handle)
    }

    fn cuGraphAddNode_v2(
        driver,
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        edges: In<u64>,
        count: usize,
        params: In<CUgraphNodeParams>,
    ) {
        // Edges of other kinds than "behind the whole node" are not imitated.
        if edges.address() != 0 && edges.all(count)?.iter().any(|e| *e != 0) {
            return Err(NOT_SUPPORTED);
        }
        let handle = driver.any_node(graph, &after.all(count)?, params)?;
        node.put(handle)
    }

    fn cuGraphAddDependencies(driver, graph: Handle, from: In<Handle>, to: In<Handle>, count: usize) {
        for (from, to) in from.all(count)?.iter().zip(to.all(count)?) {
            let g = driver.graphs.get_mut(graph).map_err(|_| INVALID_VALUE)?;
            let place = |h: Handle| g.nodes.iter().position(|n| n.handle == h).ok_or(INVALID_VALUE);
            let (from, to) = (place(*from)?, place(to)?);
            g.nodes[to].after.push(from);
        }
        Ok(())
    }

    fn cuGraphGetNodes(driver, graph: Handle, nodes: Host, count: Out<usize>) {
        let found: Vec<Handle> = driver.graphs.get(graph).map_err(|_| INVALID_VALUE)?.nodes.iter().map(|n| n.handle).collect();
        if nodes.0 == 0 {
            return count.put(found.len());
        }
        let room = In::<usize>::of(count.pointer()).get()?;
        for (k, node) in found.iter().take(room).enumerate() {
            out_at(nodes.0 + k * size_of::<Handle>()).put(*node)?;
        }
        count.put(room.min(found.len()))
    }

    fn cuGraphConditionalHandleCreate(
        driver,
        condition: Out<u64>,
        graph: Handle,
        _context: Handle,
        value: c_uint,
        flags: c_uint,
    ) {
        driver.current()?;
        driver.graphs.get(graph).map_err(|_| INVALID_VALUE)?;
        if driver.settings.driver_version < 12040 {
            return Err(NOT_SUPPORTED);
        }
        let handle = driver.handle() as u64;
        let initial = (flags & ASSIGN_DEFAULT != 0).then_some(value);
        driver.conditions.insert(handle, Condition { graph, value: 0, initial });
        condition.put(handle)
    }

    fn cuGraphInstantiateWithFlags(driver, instance: Out<Handle>, graph: Handle, flags: c_ulonglong) {
        // Free on launch, upload, node priorities; launches by the device are not imitated.
        if flags & !0b1011 != 0 {
            return Err(if flags & 0b100 != 0 { INVALID_VALUE } else { NOT_SUPPORTED });
        }
        let handle = driver.instantiate(graph)?;
        instance.put(handle)
    }

    fn cuGraphInstantiateWithParams(
        driver,
        instance: Out<Handle>,
        graph: Handle,
        _params: In<CUDA_GRAPH_INSTANTIATE_PARAMS>,
    ) {
        let handle = driver.instantiate(graph)?;
        instance.put(handle)
    }

    fn cuGraphExecKernelNodeSetParams_v2(
        driver,
        instance: Handle,
        node: Handle,
        params: In<CUDA_KERNEL_NODE_PARAMS>,
    ) {
        let work = driver.kernel_node(&params.get()?)?;
        let found = driver.executables.get_mut(instance)?;
        if Arc::make_mut(&mut found.graph).set(node, &work) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn cuGraphKernelNodeSetParams_v2(driver, node: Handle, params: In<CUDA_KERNEL_NODE_PARAMS>) {
        let work = driver.kernel_node(&params.get()?)?;
        driver.node(node)?.kind = Kind::Work(work);
        Ok(())
    }

    fn cuGraphExecUpdate_v2(
        driver,
        instance: Handle,
        graph: Handle,
        info: Out<CUgraphExecUpdateResultInfo>,
    ) {
        let new = driver.executable(graph)?;
        let old = driver.executables.get_mut(instance)?;
        let fits = old.graph.matches(&new);
        // The result's numbers: 0 done, 1 failed.
        info.cast::<c_int>().offer(i32::from(!fits));
        if !fits {
            return Err(GRAPH_EXEC_UPDATE_FAILURE);
        }
        old.graph = Arc::new(new);
        Ok(())
    }

    fn cuGraphLaunch(driver, instance: Handle, stream: Handle) {
        let stream = driver.stream(stream)?;
        let graph = driver.executables.get(instance)?.graph.clone();
        driver.enqueue(stream, Work::Graph(graph))
    }

    fn cuGraphUpload(driver, instance: Handle, stream: Handle) {
        driver.stream(stream)?;
        driver.executables.get(instance).map(drop)
    }

    fn cuGraphExecDestroy(driver, instance: Handle) {
        driver.executables.remove(instance)?;
        driver.current().map(drop)
    }

    fn cuStreamBeginCapture_v2(driver, stream: Handle, mode: c_uint) {
        let stream = driver.stream(stream)?;
        let context = driver.current()?;
        let s = driver.streams.get(stream)?;
        if mode > 2 || s.built_in || s.capture.is_some() {
            return Err(if mode > 2 { INVALID_VALUE } else { ILLEGAL_STATE });
        }
        let graph = driver.new_graph(context, None);
        driver.streams.get_mut(stream)?.capture = Some(Capture { graph, last: None });
        Ok(())
    }

    fn cuStreamEndCapture(driver, stream: Handle, graph: Out<Handle>) {
        let stream = driver.stream(stream)?;
        let capture = driver.streams.get_mut(stream)?.capture.take().ok_or(STREAM_CAPTURE_UNMATCHED)?;
        graph.put(capture.graph)
    }

    fn cuStreamIsCapturing(driver, stream: Handle, status: Out<c_uint>) {
        let stream = driver.stream(stream)?;
        status.put(driver.streams.get(stream)?.capture.is_some().into())
    }
}

impl Driver {
    fn instantiate(&mut self, graph: Handle) -> Result<Handle, Status> {
        let context = self.current()?;
        if self.graphs.get(graph).map_err(|_| INVALID_VALUE)?.context != context {
            return Err(INVALID_VALUE);
        }
        let graph = Arc::new(self.executable(graph)?);
        let handle = self.handle();
        self.executables.insert(handle, Instance { context, graph });
        Ok(handle)
    }

    fn kernel_node(&self, p: &CUDA_KERNEL_NODE_PARAMS) -> Result<Work, Status> {
        let grid = [p.gridDimX, p.gridDimY, p.gridDimZ];
        let geometry = Geometry { grid, block: [p.blockDimX, p.blockDimY, p.blockDimZ] };
        let params = (In::of(p.kernelParams.cast()), In::of(p.extra.cast()));
        let work = self.kernel_work(p.func as usize, geometry, p.sharedMemBytes, params, false)?;
        Ok(Work::Kernel(work))
    }

    /// A copy of one row between the host and the device or within it.
    fn copy_node(&self, p: &CUDA_MEMCPY3D) -> Result<Work, Status> {
        if p.Height > 1 || p.Depth > 1 || p.srcY + p.srcZ + p.dstY + p.dstZ > 0 {
            return Err(NOT_SUPPORTED);
        }
        let bytes = p.WidthInBytes;
        let (from, to) = (p.srcDevice + p.srcXInBytes as u64, p.dstDevice + p.dstXInBytes as u64);
        let (host_from, host_to) =
            (Host(p.srcHost as usize + p.srcXInBytes), Host(p.dstHost as usize + p.dstXInBytes));
        use CUmemorytype::{CU_MEMORYTYPE_DEVICE as DEVICE, CU_MEMORYTYPE_HOST as HOST};
        match (p.srcMemoryType, p.dstMemoryType) {
            (DEVICE, DEVICE) => self.within(to, from, bytes),
            (DEVICE, HOST) => self.to_host(host_to, from, bytes),
            // A graph reads the host's memory at each launch.
            (HOST, DEVICE) => {
                self.holder(to, bytes)?;
                Ok(Work::ToDevice { to, from: Source::Late(host_from.0, bytes) })
            }
            _ => Err(NOT_SUPPORTED),
        }
    }

    fn fill_node(
        &self,
        to: u64,
        value: c_uint,
        element: c_uint,
        width: usize,
        height: usize,
    ) -> Result<Work, Status> {
        if !matches!(element, 1 | 2 | 4) || height != 1 {
            return Err(INVALID_VALUE);
        }
        let pattern = value.to_le_bytes()[..element as usize].to_vec();
        let bytes = width * element as usize;
        self.holder(to, bytes)?;
        Ok(Work::Fill { to, pattern, bytes })
    }

    /// A node of a kind that its parameters tell.
    fn any_node(
        &mut self,
        graph: Handle,
        after: &[Handle],
        params: In<CUgraphNodeParams>,
    ) -> Result<Handle, Status> {
        let kind = In::<u32>::of(params.pointer().cast()).get()?;
        let union = params.field(std::mem::offset_of!(CUgraphNodeParams, __bindgen_anon_1))?;
        let kind = match kind {
            KERNEL => Kind::Work(self.kernel_node(&In::of(union as *const CUDA_KERNEL_NODE_PARAMS).get()?)?),
            MEMCPY => {
                let p = In::of(union as *const cudarc::driver::sys::CUDA_MEMCPY_NODE_PARAMS).get()?;
                Kind::Work(self.copy_node(&p.copyParams)?)
            }
            MEMSET => {
                let p = In::of(union as *const CUDA_MEMSET_NODE_PARAMS).get()?;
                Kind::Work(self.fill_node(p.dst, p.value, p.elementSize, p.width, p.height)?)
            }
            EMPTY => Kind::Empty,
            CONDITIONAL => return self.conditional_node(graph, after, union),
            _ => return Err(NOT_SUPPORTED),
        };
        self.add_node(graph, after, kind)
    }

    fn conditional_node(&mut self, graph: Handle, after: &[Handle], at: usize) -> Result<Handle, Status> {
        type Params = cudarc::driver::sys::CUDA_CONDITIONAL_NODE_PARAMS;
        let condition = In::of(at as *const u64).get()?;
        let kind = In::of((at + std::mem::offset_of!(Params, type_)) as *const u32).get()?;
        let size = In::of((at + std::mem::offset_of!(Params, size)) as *const u32).get()?;
        if kind > 1 || size != 1 {
            return Err(NOT_SUPPORTED);
        }
        if self.conditions.get(&condition).is_none_or(|c| c.graph != self.root(graph)) {
            return Err(INVALID_VALUE);
        }
        let context = self.graphs.get(graph).map_err(|_| INVALID_VALUE)?.context;
        let body = Arc::new(self.new_graph(context, Some(graph)));
        out_at(at + std::mem::offset_of!(Params, phGraph_out)).put(Arc::as_ptr(&body))?;
        self.add_node(graph, after, Kind::Conditional { condition, repeats: kind == 1, body })
    }

    /// The outermost graph around one.
    pub fn root(&self, graph: Handle) -> Handle {
        let parent = self.graphs.get(graph).ok().and_then(|g| g.parent);
        parent.map_or(graph, |p| self.root(p))
    }
}
