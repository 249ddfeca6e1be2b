//! Arrays on their way to a GPU, which is a stand-in: those of the host go up as they are, those in the memory of the GPU never touch the host.

use cudarc::driver::sys;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use sumsq::codegen::ScalarType;
use sumsq::codegen::runtime::cuda::{CudaError, Device, DeviceMemory, PointerError};
use sumsq::energy::Energy;
use sumsq::{
    ArrayView, Backend, CompileOptions, DataError, DeviceArray, Precision, ProblemData, Report, SolveError,
    SolveOptions, Solver, Stream, Termination,
};
use sumsq_libcuda::{Control, preload};
use sumsq_tests::{bind, bits, doubles, indices};

const W: usize = 48;
const H: usize = 8;

/// An image near another one, smooth where weights say so; the weights are read beside their element, too.
const ENERGY: &str = r#"
local W, H = Dim("W", 0), Dim("H", 1)
local X = Unknown("X", opt_float2, {W, H}, 0)
local A = Array("A", opt_float2, {W, H}, 1)
local M = Array("M", opt_float, {W, H}, 2)
local C = Array("C", opt_float, {W, H}, 3)
Energy(0.5 * M(0, 0) * (X(0, 0) - A(0, 0)))
Energy(C(1, 0) * (X(0, 0) - X(1, 0)), X(0, 0) - X(0, 1))
"#;

/// The machine, for one test.
struct Machine {
    control: Control,
    _turn: MutexGuard<'static, ()>,
}

impl Machine {
    fn new() -> Machine {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let control = preload().unwrap();
        control.fail_none();
        control.set("DEVICES", "1");
        control.reset_counters();
        Machine { control, _turn: turn }
    }
}

fn energy() -> Energy {
    Energy::from_text("image.t", ENERGY).unwrap()
}

fn compiled(precision: Precision) -> Solver {
    let options =
        CompileOptions { precision, backend: Backend::Cuda, threads: Some(1), ..CompileOptions::default() };
    Solver::compile(energy(), &options).unwrap()
}

fn options() -> SolveOptions {
    SolveOptions { iterations: Some(2), linear_iterations: Some(5), ..SolveOptions::default() }
}

/// X, A, M and C in C order.
fn numbers() -> [Vec<f32>; 4] {
    let list = |n: usize, f: fn(usize) -> f32| (0..n).map(f).collect::<Vec<f32>>();
    [
        list(2 * W * H, |i| (i % 7) as f32 * 0.5),
        list(2 * W * H, |i| (i * 31 % 17) as f32),
        list(W * H, |i| (i % 3) as f32),
        list(W * H, |i| 1.0 + (i % 5) as f32),
    ]
}

const NAMES: [&str; 4] = ["X", "A", "M", "C"];

fn shape(name: &str) -> Vec<usize> {
    if ["X", "A"].contains(&name) { vec![H, W, 2] } else { vec![H, W] }
}

/// Solves with numbers of the host.
fn on_host(solver: &Solver) -> (Report, Vec<f64>) {
    let all = numbers();
    let views: Vec<ArrayView> =
        NAMES.iter().zip(&all).map(|(name, v)| ArrayView::new(name, &shape(name), v.as_slice())).collect();
    let mut data = ProblemData::bind(solver.energy(), views).unwrap();
    let report = solver.plan(&data).unwrap().solve(&mut data, &options()).unwrap();
    (report, data.x())
}

fn bytes<T: Copy, const N: usize>(values: &[T], of: fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&v| of(v)).collect()
}

/// Memory of a GPU that the solver knows nothing of.
struct Owned {
    memory: DeviceMemory,
}

impl Owned {
    fn new(device: &Device, content: &[u8]) -> Owned {
        let memory = device.allocate(content.len()).unwrap();
        memory.upload(0, content).unwrap();
        Owned { memory }
    }

    fn floats(device: &Device, values: &[f32]) -> Owned {
        Owned::new(device, &bytes(values, f32::to_ne_bytes))
    }

    fn array(&self, ty: ScalarType, shape: &[usize], strides: Option<&[isize]>) -> DeviceArray {
        // SAFETY: the memory lives longer than the array in every test, and nobody else writes to it.
        let made = unsafe { DeviceArray::new(0, ty, self.at(0), shape, strides, Stream::default()) };
        made.unwrap()
    }

    fn at(&self, offset: u64) -> *mut c_void {
        (self.memory.address() + offset) as *mut c_void
    }
}

#[test]
fn numbers_of_the_host_go_up_as_they_are() {
    let machine = Machine::new();
    let solver = compiled(Precision::Mixed);
    let [x, a, m, c] = numbers();
    let narrow: Vec<u8> = m.iter().map(|&v| v as u8).collect();
    let views = [
        ArrayView::new("X", &[H, W, 2], x.as_slice()),
        ArrayView::new("A", &[H, W, 2], a.as_slice()),
        ArrayView::new("M", &[H, W], narrow.as_slice()),
        ArrayView::new("C", &[H, W], c.as_slice()),
    ];
    let data = ProblemData::bind(solver.energy(), views).unwrap();
    machine.control.reset_counters();
    let mut problem = solver.plan(&data).unwrap();
    // X, A and C are float32, M is bytes: once each, though A, M and C have a copy in float64 and one in float32.
    let expected = (4 * (2 + 2 + 1) + 1) * W * H;
    assert_eq!(machine.control.counters().bytes_to_device, expected as u64);

    let mut solved = data.clone();
    let report = problem.solve(&mut solved, &options()).unwrap();
    assert_eq!((report.backend, report.lent.copies, report.lent.in_place), ("cuda", 0, 0));
    let (wide, of_floats) = on_host(&solver);
    assert_eq!((report.energy_final, solved.x()), (wide.energy_final, of_floats));
}

/// Everything in the memory of the GPU, in types and layouts that are not the plan's but for `M`: the same bits as from the host.
#[test]
fn arrays_on_the_gpu_give_the_same_bits_and_never_touch_the_host() {
    let machine = Machine::new();
    for (precision, width, in_place) in
        [(Precision::F32, 4, 2), (Precision::Mixed, 8, 1), (Precision::F64, 8, 0)]
    {
        let solver = compiled(precision);
        machine.control.reset_counters();
        let (expected, x_expected) = on_host(&solver);
        let here = machine.control.counters();
        let [x, a, m, c] = numbers();
        let device = Device::open(0).unwrap();
        // A as planes, each with its rows in order; C upside down; X as it is.
        let plane = |k: usize| a.iter().skip(k).step_by(2).copied();
        let planes: Vec<f32> = plane(0).chain(plane(1)).collect();
        let upside_down: Vec<f64> = c.chunks(W).rev().flatten().map(|&v| f64::from(v)).collect();
        let memory = [
            Owned::floats(&device, &x),
            Owned::floats(&device, &planes),
            Owned::floats(&device, &m),
            Owned::new(&device, &bytes(&upside_down, f64::to_ne_bytes)),
        ];
        let (w, plane, last) = (W as isize, (W * H) as isize, (8 * W * (H - 1)) as u64);
        // SAFETY: as of `Owned::array`.
        let c = unsafe {
            DeviceArray::new(
                0,
                ScalarType::F64,
                memory[3].at(last),
                &[H, W],
                Some(&[-w, 1]),
                Stream::default(),
            )
        };
        let arrays = [
            memory[0].array(ScalarType::F32, &[H, W, 2], None),
            memory[1].array(ScalarType::F32, &[H, W, 2], Some(&[w, 1, plane])),
            memory[2].array(ScalarType::F32, &[H, W], None),
            c.unwrap(),
        ];
        let views = NAMES.iter().zip(&arrays).map(|(name, array)| ArrayView::on_device(name, array));
        let mut data = ProblemData::bind(solver.energy(), views).unwrap();
        machine.control.reset_counters();
        let mut problem = solver.plan(&data).unwrap();
        let report = problem.solve(&mut data, &options()).unwrap();
        let there = machine.control.counters();
        // Scalars go to and fro either way; X goes up twice, with the plan and with the solve.
        assert_eq!(here.bytes_to_device - there.bytes_to_device, (4 * 8 * W * H) as u64, "{precision:?}");
        assert!(here.bytes_to_host - there.bytes_to_host >= (2 * width * W * H) as u64, "{precision:?}");
        assert_eq!(report.energy_final.to_bits(), expected.energy_final.to_bits(), "{precision:?}");
        assert_eq!(report.lent.in_place, in_place, "{precision:?}");
        // In and out.
        assert!(report.lent.copies >= 3, "{precision:?}: {:?}", report.lent);
        let rounded: Vec<f64> = x_expected.iter().map(|&v| f64::from(v as f32)).collect();
        assert_eq!(data.x(), rounded, "{precision:?}");
        let mut found = vec![0; 8 * W * H];
        memory[0].memory.download(0, &mut found).unwrap();
        let found: Vec<f64> =
            found.chunks(4).map(|b| f64::from(f32::from_ne_bytes(b.try_into().unwrap()))).collect();
        assert_eq!(found, rounded, "{precision:?}: the caller's memory holds x");
    }
}

/// Other contents, then numbers of the host again, in the place of an array that was read where it lies.
#[test]
fn an_array_that_was_lent_is_given_back() {
    let _machine = Machine::new();
    let solver = compiled(Precision::F32);
    let device = Device::open(0).unwrap();
    let all = numbers();
    let views: Vec<ArrayView> =
        NAMES.iter().zip(&all).map(|(name, v)| ArrayView::new(name, &shape(name), v.as_slice())).collect();
    let mut data = ProblemData::bind(solver.energy(), views).unwrap().into_owned();
    let mut problem = solver.plan(&data).unwrap();
    let mut energy = |data: &ProblemData| {
        problem.set_arrays(data).unwrap();
        problem.evaluate(data).unwrap().energies.total
    };
    let of_host = energy(&data);
    let ones = vec![1.0f32; W * H];
    let (same, other) = (Owned::floats(&device, &all[2]), Owned::floats(&device, &ones));
    for (memory, equal) in [(&same, true), (&other, false), (&same, true)] {
        let array = memory.array(ScalarType::F32, &[H, W], None);
        data.update(solver.energy(), [ArrayView::on_device("M", &array)]).unwrap();
        assert_eq!(energy(&data) == of_host, equal);
    }
    data.update(solver.energy(), [ArrayView::new("M", &[H, W], ones.as_slice())]).unwrap();
    let of_ones = energy(&data);
    drop((same, other));
    assert_eq!(energy(&data), of_ones);
    assert_ne!(of_ones, of_host);
}

fn made(
    ordinal: usize,
    pointer: *mut c_void,
    shape: &[usize],
    strides: Option<&[isize]>,
    stream: Stream,
) -> Result<DeviceArray, CudaError> {
    // SAFETY: memory that lives as long as the test, or a pointer that is refused.
    unsafe { DeviceArray::new(ordinal, ScalarType::F32, pointer, shape, strides, stream) }
}

#[test]
fn pointers_that_are_none_are_typed_errors() {
    let machine = Machine::new();
    machine.control.set("DEVICES", "2");
    let devices = [0, 1].map(|ordinal| Device::open(ordinal).unwrap());
    let [memory, there] = [&devices[0], &devices[1]].map(|device| Owned::floats(device, &[1.0; 12]));
    let plain = |pointer| made(0, pointer, &[12], None, Stream::default());
    let refused = |made: Result<DeviceArray, CudaError>| match made.unwrap_err() {
        CudaError::Pointer(error) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(plain(std::ptr::null_mut())), PointerError::Null { device: 0 });
    let address = memory.memory.address();
    let misaligned = PointerError::Misaligned { address: address + 2, ty: "f32", bytes: 4 };
    assert_eq!(refused(plain(memory.at(2))), misaligned);
    let mut host = [0f32; 12];
    let pointer = host.as_mut_ptr().cast();
    assert_eq!(refused(plain(pointer)), PointerError::Host { address: pointer as u64, device: 0 });
    let other = PointerError::OtherDevice { address: there.memory.address(), device: 0, came: 1 };
    assert_eq!(refused(plain(there.at(0))), other);
    // Allocations are of 256 bytes.
    let long = made(0, memory.at(4), &[64], None, Stream::default());
    assert!(matches!(refused(long), PointerError::TooShort { needed: 256, there: 252, .. }));
    let strided =
        |shape: &[usize], strides: &[isize]| made(0, memory.at(0), shape, Some(strides), Stream::default());
    assert!(matches!(refused(strided(&[3, 4], &[1])), PointerError::Strides { .. }));
    assert!(matches!(refused(strided(&[3, 4], &[isize::MAX, 1])), PointerError::Strides { .. }));
    assert!(matches!(refused(strided(&[2, 4], &[-4, 1])), PointerError::TooShort { .. }), "before it");
    // Managed memory is as good as any.
    let _entered = devices[0].enter().unwrap();
    let mut managed = 0;
    // SAFETY: a place for an address.
    unsafe { sys::cuMemAllocManaged(&mut managed, 48, 1) }.result().unwrap();
    assert!(plain(managed as *mut c_void).is_ok());
    // SAFETY: allocated once, freed once.
    unsafe { sys::cuMemFree_v2(managed) }.result().unwrap();
    // A stream of the other device.
    drop(_entered);
    let entered = devices[1].enter().unwrap();
    let mut foreign = std::ptr::null_mut();
    // SAFETY: a place for a stream.
    unsafe { sys::cuStreamCreate(&mut foreign, 1) }.result().unwrap();
    // SAFETY: the stream lives.
    let stream = unsafe { Stream::new(foreign.cast()) };
    let came = refused(made(0, memory.at(0), &[12], None, stream));
    assert_eq!(came, PointerError::Context { device: 0, what: "stream" });
    // SAFETY: created once, destroyed once.
    unsafe { sys::cuStreamDestroy_v2(foreign) }.result().unwrap();
    drop(entered);
    // The devices go on.
    assert!(plain(memory.at(0)).is_ok() && made(1, there.at(0), &[12], None, Stream::default()).is_ok());

    // What a problem says of arrays that are right in themselves.
    let energy = energy();
    let square = Owned::floats(&devices[0], &vec![0.0; 2 * W * H]);
    let bind = |name: &str, array: &DeviceArray| {
        ProblemData::bind(&energy, [ArrayView::on_device(name, array)]).unwrap_err()
    };
    let wrong = bind("X", &square.array(ScalarType::F32, &[2 * H, W], None));
    assert!(matches!(wrong, DataError::Shape { .. }), "{wrong}");
    let wrong = bind("W", &square.array(ScalarType::I32, &[], None));
    assert!(matches!(wrong, DataError::OnDevice { kind: "dim", .. }), "{wrong}");
    let wrong = bind("X", &square.array(ScalarType::F32, &[H, W, 2], Some(&[0, 1, 0])));
    assert!(matches!(wrong, DataError::Pointer { source: PointerError::Overlap { .. }, .. }), "{wrong}");

    // An array of another GPU than the solver's.
    let solver = compiled(Precision::F32);
    let all = numbers();
    let far = Owned::floats(&devices[1], &all[2]);
    let far = made(1, far.at(0), &[H, W], None, Stream::default()).unwrap();
    let views = NAMES.iter().zip(&all).map(|(name, v)| match *name {
        "M" => ArrayView::on_device("M", &far),
        _ => ArrayView::new(name, &shape(name), v.as_slice()),
    });
    let data = ProblemData::bind(solver.energy(), views).unwrap();
    let error = solver.plan(&data).err().unwrap();
    let SolveError::Data(DataError::Pointer { name, source }) = error else { panic!("{error:?}") };
    assert!(name == "M" && matches!(source, PointerError::OtherDevice { device: 0, came: 1, .. }));
}

/// The owner's stream has not yet written what is bound, and does not wait for what it reads: order comes of events alone. The stand-in does the
/// work of a stream as late as it may.
#[test]
fn work_of_the_owners_stream_is_in_order() {
    let machine = Machine::new();
    let solver = compiled(Precision::F32);
    let (_, expected) = on_host(&solver);
    let device = Device::open(0).unwrap();
    let all = numbers();
    let _entered = device.enter().unwrap();
    let mut raw = std::ptr::null_mut();
    // SAFETY: a place for a stream.
    unsafe { sys::cuStreamCreate(&mut raw, 1) }.result().unwrap();
    // SAFETY: the stream lives until the end of the test.
    let stream = unsafe { Stream::new(raw.cast()) };
    let wrong: Vec<Owned> = all.iter().map(|v| Owned::floats(&device, &vec![9.0; v.len()])).collect();
    let right: Vec<Owned> = all.iter().map(|v| Owned::floats(&device, v)).collect();
    let arrays: Vec<DeviceArray> = NAMES
        .iter()
        .zip(&wrong)
        .map(|(name, owned)| made(0, owned.at(0), &shape(name), None, stream).unwrap())
        .collect();
    for (to, from) in wrong.iter().zip(&right) {
        // SAFETY: blocks of the same size that live.
        let copied = unsafe {
            sys::cuMemcpyDtoDAsync_v2(to.memory.address(), from.memory.address(), to.memory.bytes(), raw)
        };
        copied.result().unwrap();
    }
    let views = NAMES.iter().zip(&arrays).map(|(name, array)| ArrayView::on_device(name, array));
    let mut data = ProblemData::bind(solver.energy(), views).unwrap();
    solver.plan(&data).unwrap().solve(&mut data, &options()).unwrap();
    // A copy of x that the owner asks his stream for, then a wait for that stream alone.
    let copy = Owned::floats(&device, &vec![0.0; 2 * W * H]);
    let waits = machine.control.counters().waits;
    let mut found = vec![0f32; 2 * W * H];
    // SAFETY: blocks of the same size that live until the stream is done.
    unsafe {
        let (to, from, n) = (copy.memory.address(), wrong[0].memory.address(), 8 * W * H);
        sys::cuMemcpyDtoDAsync_v2(to, from, n, raw).result().unwrap();
        sys::cuMemcpyDtoHAsync_v2(found.as_mut_ptr().cast(), to, n, raw).result().unwrap();
        sys::cuStreamSynchronize(raw).result().unwrap();
    }
    assert_eq!(machine.control.counters().waits, waits + 1);
    let found: Vec<f64> = found.into_iter().map(f64::from).collect();
    assert_eq!(found, expected);
    drop(data);
    drop(arrays);
    // SAFETY: created once, destroyed once.
    unsafe { sys::cuStreamDestroy_v2(raw) }.result().unwrap();
}

/// Every 41st call of a solve fails: the caller's memory holds x as it was, or as the solve ended.
#[test]
fn a_solve_that_fails_leaves_the_callers_unknowns() {
    let machine = Machine::new();
    let device = Device::open(0).unwrap();
    let all = numbers();
    let memory: Vec<Owned> = all.iter().map(|v| Owned::floats(&device, v)).collect();
    let read = || {
        let mut found = vec![0; 8 * W * H];
        memory[0].memory.download(0, &mut found).unwrap();
        found
    };
    let before = read();
    let mut failed = 0;
    for n in (5..).step_by(41) {
        // What a device has failed with is what it answers from then on: another is opened.
        let solver = compiled(Precision::F32);
        memory[0].memory.upload(0, &before).unwrap();
        machine.control.reset_counters();
        // Not enough memory: it breaks no context, so that the caller can look at his memory.
        machine.control.fail_call(n, 2);
        let done = {
            let shapes = NAMES.map(shape);
            let arrays =
                memory.iter().zip(&shapes).map(|(m, s)| made(0, m.at(0), s, None, Stream::default()));
            arrays.collect::<Result<Vec<_>, _>>().map_err(SolveError::from).and_then(|arrays| {
                let views = NAMES.iter().zip(&arrays).map(|(name, array)| ArrayView::on_device(name, array));
                let mut data = ProblemData::bind(solver.energy(), views)?;
                let options = SolveOptions { linear_iterations: Some(1), iterations: Some(1), ..options() };
                solver.plan(&data)?.solve(&mut data, &options)
            })
        };
        let calls = machine.control.counters().calls;
        machine.control.fail_none();
        match done {
            Ok(report) if report.termination != Termination::Failed => {}
            Ok(_) | Err(SolveError::Backend(_)) => {
                failed += 1;
                assert!(read() == before, "call {n}");
            }
            Err(other) => panic!("{other}"),
        }
        if calls < n {
            break;
        }
    }
    assert!(failed > 5, "{failed}");
    assert!(read() != before, "the last solve has not failed");
}

/// Of a wide image all but a corner is excluded. What threads skip changes no bit.
#[test]
fn warps_far_from_free_elements_are_skipped() {
    let machine = Machine::new();
    const TEXT: &str = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W, H}, 0)
        local A = Array("A", opt_float, {W, H}, 1)
        Exclude(less(A(0, 0), 0))
        Energy(X(0, 0) - A(0, 0), A(0, 0) * sin(X(0, 0)) - X(1, 0), X(0, 0) - X(0, 1))
    "#;
    let (w, h) = (192, 48);
    let value = |i: usize| if i % w < 40 && i / w < 9 { (i % 7) as f64 / 7.0 } else { -1.0 };
    let arrays =
        [doubles("X", &[h, w], vec![0.5; w * h]), doubles("A", &[h, w], (0..w * h).map(value).collect())];
    let solved = |far: &str| {
        let (energy, mut data) = bind(TEXT, &arrays);
        let choices = format!("far {{W,H}}: {far}").parse().unwrap();
        let options =
            CompileOptions { choices, backend: Backend::Cuda, threads: Some(1), ..CompileOptions::default() };
        let mut problem = Solver::compile(energy, &options).unwrap().plan(&data).unwrap();
        machine.control.reset_counters();
        let report = problem.solve(&mut data, &self::options()).unwrap();
        ((bits(&data), report.linear_iterations_total), machine.control.counters().instructions)
    };
    let ((skipped, few), (kept, many)) = (solved("skipped"), solved("kept"));
    assert_eq!(skipped, kept);
    assert!(3 * few < 2 * many, "{few} instructions, {many} without the mask");
}

/// Masks, what follows of them, and x + d where nothing is computed are made on the GPU of what is there: of an element no byte comes down, for
/// none of two masks, and each has its own bits.
#[test]
fn masks_are_made_where_the_numbers_are() {
    let machine = Machine::new();
    const TEXT: &str = r#"
        local W, H = Dim("W", 0), Dim("H", 1)
        local X = Unknown("X", opt_float, {W, H}, 0)
        local A = Array("A", opt_float, {W, H}, 1)
        Exclude(less(A(0, 0), 0))
        Energy(X(0, 0) - A(0, 0), A(0, 0) * sin(X(0, 0)) - X(1, 0), X(0, 0) - X(0, 1))
    "#;
    // The tuples of scalars that the host reads are some 80,000 bytes.
    let (w, h) = (512, 192);
    let energy = Energy::from_text("masked.t", TEXT).unwrap();
    let options =
        CompileOptions { precision: Precision::F32, backend: Backend::Cuda, ..CompileOptions::default() };
    let solver = Solver::compile(energy, &options).unwrap();
    let device = Device::open(0).unwrap();
    let a = |shift: usize| -> Vec<f32> {
        let value = |i: usize| if i % w / 20 == shift && i / w < 9 { (i % 7) as f32 / 7.0 } else { -1.0 };
        (0..w * h).map(value).collect()
    };
    let half = vec![0.5; w * h];
    let x = Owned::floats(&device, &half);
    let masks = [0, 7].map(|shift| Owned::floats(&device, &a(shift)));
    let lent = [&x, &masks[0], &masks[1]].map(|m| m.array(ScalarType::F32, &[h, w], None));
    let [of_x, of_masks @ ..] = &lent;
    let views = [ArrayView::on_device("X", of_x), ArrayView::on_device("A", &of_masks[0])];
    let mut data = ProblemData::bind(solver.energy(), views).unwrap();
    let mut problem = solver.plan(&data).unwrap();
    for (shift, mask) in [0, 7].into_iter().zip(of_masks) {
        x.memory.upload(0, &bytes(&half, f32::to_ne_bytes)).unwrap();
        data.update(solver.energy(), [ArrayView::on_device("A", mask)]).unwrap();
        machine.control.reset_counters();
        problem.set_arrays(&data).unwrap();
        assert_eq!(machine.control.counters().bytes_to_host, 0, "{shift}: nothing is looked at");
        let report = problem.solve(&mut data, &self::options()).unwrap();
        let came = machine.control.counters().bytes_to_host;
        assert!(came < (w * h) as u64, "{shift}: {came} bytes of {} elements", w * h);
        assert_eq!(report.unknowns, 20 * 9, "{shift}");

        let a: Vec<f64> = a(shift).into_iter().map(f64::from).collect();
        let arrays = [doubles("X", &[h, w], vec![0.5; w * h]), doubles("A", &[h, w], a)];
        let mut alone = bind(TEXT, &arrays).1;
        let expected = solver.plan(&alone).unwrap().solve(&mut alone, &self::options()).unwrap();
        assert_eq!(report.energy_final.to_bits(), expected.energy_final.to_bits(), "{shift}");
        assert_eq!(bits(&data), bits(&alone), "{shift}");
    }
}

/// A vertex in 9000 hyperedges: 141 sums of 64 each, three of them again, whatever order the threads have. The same bits every time, and
/// the processor's values.
#[test]
fn a_vertex_in_thousands_of_hyperedges_is_summed_by_a_tree() {
    let machine = Machine::new();
    const TEXT: &str = r#"
        local N = Dim("N", 0)
        local X = Unknown("X", opt_float, {N}, 0)
        local A = Array("A", opt_float, {N}, 1)
        local G = Graph("G", 2, "hub", {N}, 3, "leaf", {N}, 4)
        Energy(0.1 * (X(0) - A(0)))
        Residual{name="edge", sin(X(G.hub)) * A(G.leaf) - X(G.leaf)}
    "#;
    let n = 9001;
    let arrays = [
        doubles("X", &[n], (0..n).map(|i| 0.5 + (i % 5) as f64 / 8.0).collect()),
        doubles("A", &[n], (0..n).map(|i| (i * 37 % 101) as f64 / 101.0).collect()),
        indices("G.hub", 1, vec![7; n - 1]),
        indices("G.leaf", 1, (0..n as i64).filter(|&i| i != 7).collect()),
    ];
    let solved = |backend, order: &str| {
        machine.control.set("ORDER", order);
        let (energy, mut data) = bind(TEXT, &arrays);
        let options = CompileOptions {
            precision: Precision::F64,
            backend,
            threads: Some(1),
            ..CompileOptions::default()
        };
        let mut problem = Solver::compile(energy, &options).unwrap().plan(&data).unwrap();
        problem.solve(&mut data, &self::options()).unwrap();
        machine.control.set("ORDER", "0");
        data.x().to_vec()
    };
    let [one, other] = ["0", "5"].map(|order| solved(Backend::Cuda, order));
    assert!(one.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
    let far = one.iter().zip(solved(Backend::Cpu, "0")).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far < 1e-9, "{far}");
}

/// g and the blocks of three elements, one of them in nearly all hyperedges: fewer instructions of the kernel that adds up rows than there are more
/// rows, since each of its threads adds up 64 times 64 hyperedges at once. The same bits whatever order threads have, and the processor's values.
#[test]
fn the_gradient_of_a_long_vertex_is_summed_by_a_tree() {
    let machine = Machine::new();
    const TEXT: &str = r#"
        local H, N = Dim("H", 0), Dim("N", 1)
        local X = Unknown("X", opt_float, {H}, 0)
        local A = Array("A", opt_float, {N}, 1)
        local G = Graph("G", 2, "hub", {H}, 3, "leaf", {N}, 4)
        Residual{name="edge", sin(X(G.hub)) * A(G.leaf) - 0.5}
    "#;
    let gradient = |backend, edges: usize, order: &str| {
        machine.control.set("ORDER", order);
        let arrays = [
            doubles("X", &[3], vec![0.3, 0.6, 0.9]),
            doubles("A", &[edges], (0..edges).map(|i| (i * 37 % 101) as f64 / 101.0).collect()),
            // The others have one row, and a fortieth of all.
            indices(
                "G.hub",
                1,
                (0..edges).map(|i| if i < 7 { 0 } else { 1 + i64::from(i % 40 == 0) }).collect(),
            ),
            indices("G.leaf", 1, (0..edges as i64).collect()),
        ];
        let (energy, data) = bind(TEXT, &arrays);
        let options = CompileOptions {
            precision: Precision::F64,
            backend,
            threads: Some(1),
            ..CompileOptions::default()
        };
        let mut problem = Solver::compile(energy, &options).unwrap().plan(&data).unwrap();
        machine.control.reset_counters();
        let gradient = problem.evaluate(&data).unwrap().gradient.concat();
        machine.control.set("ORDER", "0");
        // Behind the sums of rows, and those of them.
        (gradient, machine.control.kernel_counters("k_gradient_2").instructions)
    };
    let (few, many) = (6_400, 100_000);
    let [(one, work), (other, _)] = ["0", "5"].map(|order| gradient(Backend::Cuda, many, order));
    assert!(one.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
    let (expected, _) = gradient(Backend::Cpu, many, "0");
    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-11 * b.abs();
    assert!(one.iter().zip(&expected).all(near), "{one:?} and {expected:?}");
    let (_, less) = gradient(Backend::Cuda, few, "0");
    let rows = ((many - few) / 64) as u64;
    assert!(less > 0 && work - less < rows, "{} instructions for {rows} rows more", work - less);
}
