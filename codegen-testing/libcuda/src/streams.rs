//! Work of streams: it waits until somebody waits for it, so that a program that does not wait sees what was there before.

use crate::driver::{Device, Driver, complain};
use crate::objects::*;
use crate::raw::Host;
use crate::settings::{Direction, Settings};
use crate::status::*;
use std::collections::VecDeque;
use sumsq_ptx::Launch;

/// The default stream by its other names.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;

impl Driver {
    pub fn new_stream(&mut self, context: Handle, blocking: bool, built_in: bool) -> Handle {
        let handle = self.handle();
        let stream = Stream {
            context,
            blocking,
            queue: VecDeque::new(),
            enqueued: 0,
            done: 0,
            asked: 0,
            capture: None,
            built_in,
        };
        self.streams.insert(handle, stream);
        handle
    }

    /// The stream that a program names, which must be one of its thread's context.
    pub fn stream(&self, name: Handle) -> Result<Handle, Status> {
        let current = self.current()?;
        let context = self.contexts.get(current)?;
        let handle = match name {
            0 | LEGACY => context.default_stream,
            PER_THREAD => context.thread_stream,
            other => other,
        };
        if self.streams.get(handle)?.context == current { Ok(handle) } else { Err(INVALID_HANDLE) }
    }

    /// Puts work behind all that a stream has.
    pub fn enqueue(&mut self, stream: Handle, work: Work) -> Done {
        if self.streams.get(stream)?.capture.is_some() {
            return self.capture(stream, work);
        }
        for before in self.implied(stream)? {
            self.push(stream, before)?;
        }
        self.push(stream, work)
    }

    fn push(&mut self, stream: Handle, work: Work) -> Done {
        let stream = self.streams.get_mut(stream)?;
        stream.queue.push_back(work);
        stream.enqueued += 1;
        Ok(())
    }

    /// Waits between the default stream and those that block.
    fn implied(&self, stream: Handle) -> Result<Vec<Work>, Status> {
        let own = self.streams.get(stream)?;
        let context = self.contexts.get(own.context)?;
        let waits = |(handle, other): (Handle, &Stream)| {
            let apart = handle != stream && other.context == own.context && other.blocking;
            let pair = stream == context.default_stream || handle == context.default_stream;
            (apart && pair && other.done < other.enqueued).then_some(Work::After(handle, other.enqueued))
        };
        Ok(if own.blocking { self.streams.iter().filter_map(waits).collect() } else { vec![] })
    }

    /// Does the work of a stream up to some number.
    ///
    /// # Errors
    /// Returns what went wrong on the device, which breaks the context; work behind it is dropped.
    pub fn drain(&mut self, stream: Handle, until: u64) -> Done {
        loop {
            // A stream that is gone has done its work.
            let Ok(s) = self.streams.get_mut(stream) else { return Ok(()) };
            if s.done >= until {
                return Ok(());
            }
            let Some(work) = s.queue.pop_front() else { return Ok(()) };
            let context = s.context;
            let outcome = self.execute(stream, context, work);
            if let Ok(s) = self.streams.get_mut(stream) {
                s.done += 1;
            }
            if let Err(code) = outcome {
                self.give_up(context, code);
                return Err(code);
            }
        }
    }

    /// Breaks a context: nothing that waits in it is done.
    pub fn give_up(&mut self, context: Handle, code: Status) {
        if let Ok(c) = self.contexts.get_mut(context) {
            c.broken.get_or_insert(code);
        }
        for s in self.streams.values_mut().filter(|s| s.context == context) {
            s.queue.clear();
            s.done = s.enqueued;
        }
    }

    pub fn drain_stream(&mut self, stream: Handle) -> Done {
        let own = self.streams.get(stream)?;
        if self.contexts.get(own.context)?.default_stream == stream {
            // It waits for those that block even where it has no work of its own.
            for before in self.implied(stream)? {
                self.push(stream, before)?;
            }
        }
        self.drain(stream, self.streams.get(stream)?.enqueued)
    }

    /// Does all work of a context, the youngest stream's first.
    pub fn drain_context(&mut self, context: Handle) -> Done {
        let mut streams: Vec<Handle> =
            self.streams.iter().filter(|(_, s)| s.context == context).map(|(h, _)| h).collect();
        streams.reverse();
        for stream in streams {
            let last = self.streams.get(stream)?.enqueued;
            self.drain(stream, last)?;
        }
        Ok(())
    }

    /// Refuses what may not happen while streams of a context are captured.
    pub fn not_capturing(&self, context: Handle) -> Done {
        let capturing = self.streams.iter().any(|(_, s)| s.context == context && s.capture.is_some());
        if capturing { Err(STREAM_CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }

    /// The call waits for all work of the thread's context.
    pub fn wait_for_context(&mut self) -> Done {
        let context = self.current()?;
        self.not_capturing(context)?;
        self.counters.waits += 1;
        self.drain_context(context)
    }

    /// Does one work.
    pub fn execute(&mut self, stream: Handle, context: Handle, work: Work) -> Done {
        match work {
            Work::Kernel(kernel) => self.run_kernel(context, &kernel),
            Work::ToDevice { to, from } => {
                let bytes = match from {
                    Source::Taken(bytes) => bytes.to_vec(),
                    Source::Late(from, bytes) => Host(from).read(bytes)?,
                };
                self.counters.bytes_to_device += bytes.len() as u64;
                let device = self.holder(to, bytes.len()).map_err(|_| ILLEGAL_ADDRESS)?;
                if self.misses(Direction::ToDevice) {
                    let changed = self.devices[device].memory.differs(to, &bytes);
                    self.counters.missed_bytes += changed.map_err(|_| ILLEGAL_ADDRESS)?;
                    return Ok(());
                }
                self.devices[device].memory.write(to, &bytes).map_err(|_| ILLEGAL_ADDRESS)
            }
            Work::ToHost { to, from, bytes } => {
                self.counters.bytes_to_host += bytes as u64;
                let device = self.holder(from, bytes).map_err(|_| ILLEGAL_ADDRESS)?;
                let mut data = vec![0; bytes];
                self.devices[device].memory.read(from, &mut data).map_err(|_| ILLEGAL_ADDRESS)?;
                if self.misses(Direction::ToHost) {
                    let there = Host(to).read(bytes)?;
                    self.counters.missed_bytes +=
                        there.iter().zip(&data).filter(|(a, b)| a != b).count() as u64;
                    return Ok(());
                }
                Host(to).write(&data)
            }
            Work::Within { to, from, bytes } => self.copy_within(to, from, bytes),
            Work::Fill { to, pattern, bytes } => {
                let device = self.holder(to, bytes).map_err(|_| ILLEGAL_ADDRESS)?;
                self.devices[device].memory.fill(to, &pattern, bytes).map_err(|_| ILLEGAL_ADDRESS)
            }
            Work::Free(address) => {
                let device = self.holder(address, 1).map_err(|_| ILLEGAL_ADDRESS)?;
                if self.devices[device].memory.free(address) { Ok(()) } else { Err(ILLEGAL_ADDRESS) }
            }
            Work::Record(event) => {
                let now = self.clock();
                let here = self.streams.get(stream).map_or(0, |s| s.done + 1);
                if let Ok(e) = self.events.get_mut(event)
                    && e.recorded == Some((stream, here))
                {
                    e.reached = Some(now);
                }
                Ok(())
            }
            Work::After(stream, number) => self.drain(stream, number),
            Work::Host(callback) => {
                callback.call();
                Ok(())
            }
            Work::Graph(graph) => self.run_graph(stream, context, &graph),
        }
    }

    fn copy_within(&mut self, to: u64, from: u64, bytes: usize) -> Done {
        self.counters.bytes_within_device += bytes as u64;
        let source = self.holder(from, bytes).map_err(|_| ILLEGAL_ADDRESS)?;
        let target = self.holder(to, bytes).map_err(|_| ILLEGAL_ADDRESS)?;
        if self.misses(Direction::WithinDevice) {
            let mut data = vec![0; bytes];
            self.devices[source].memory.read(from, &mut data).map_err(|_| ILLEGAL_ADDRESS)?;
            let changed = self.devices[target].memory.differs(to, &data);
            self.counters.missed_bytes += changed.map_err(|_| ILLEGAL_ADDRESS)?;
            return Ok(());
        }
        if source == target {
            return self.devices[source].memory.copy(to, from, bytes).map_err(|_| ILLEGAL_ADDRESS);
        }
        let mut data = vec![0; bytes];
        self.devices[source].memory.read(from, &mut data).map_err(|_| ILLEGAL_ADDRESS)?;
        self.devices[target].memory.write(to, &data).map_err(|_| ILLEGAL_ADDRESS)
    }

    fn run_kernel(&mut self, context: Handle, kernel: &KernelWork) -> Done {
        let launch = launch_of(&self.settings, kernel);
        self.counters.launches += 1;
        let device = self.device_of(context)?;
        let Device { memory, workspace, .. } = &mut self.devices[device];
        let outcome = launch.run(memory, workspace).map_err(|e| {
            complain(&e.to_string());
            Driver::code_of(&e)
        })?;
        self.counters.instructions += outcome.instructions;
        self.counters.bytes_loaded += outcome.traffic.loaded;
        self.counters.bytes_stored += outcome.traffic.stored;
        let name = &kernel.module.kernels()[kernel.kernel].name;
        let own = self.kernel_counters.entry(name.clone()).or_default();
        own.launches += 1;
        own.instructions += outcome.instructions;
        for (handle, value) in outcome.conditionals {
            self.set_condition(handle, value)?;
        }
        Ok(())
    }

    /// A time that grows with work, in microseconds of a device that does a thousand instructions in each.
    pub fn clock(&self) -> u64 {
        let c = &self.counters;
        c.launches + (c.instructions + c.bytes_to_device + c.bytes_to_host + c.bytes_within_device) / 1000
    }
}

/// A launch under the settings of a machine.
pub fn launch_of<'k>(settings: &Settings, kernel: &'k KernelWork) -> Launch<'k> {
    Launch {
        module: &kernel.module,
        kernel: kernel.kernel,
        geometry: kernel.geometry,
        dynamic_shared: kernel.dynamic_shared,
        params: &kernel.params,
        order: settings.order,
        checks: settings.checks,
        cooperative: kernel.cooperative,
        endless: settings.endless,
    }
}
