//! Memory, control flow, parallel loops, failures.

use super::*;
use crate::expr::BinaryOp;

const F32: ScalarType = ScalarType::F32;

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin()).collect()
}

#[test]
fn vector_add_with_every_tail() {
    for lanes in [1, 4, 8, 16, 32] {
        let body = map("out", lanes, |at| at("a", F32) + at("b", F32));
        let c = build().input("a", F32).input("b", F32).output("out", F32).compile(body);
        for n in [0, 1, 15, 16, 17, 100] {
            let (a, b) = (numbers(n), numbers(n + 1)[1..].to_vec());
            let out = empty(F32, n as i32);
            run(&c, &[("a", &filled(&a)), ("b", &filled(&b)), ("out", &out)], &[]);
            let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_eq!(out.to_vec::<f32>(), want);
            // The mask keeps the pad behind the domain untouched.
            assert_eq!(unchecked(&out, n), 0.0);
        }
    }
}

/// The element behind the domain.
fn unchecked(b: &Buffer, i: usize) -> f32 {
    // SAFETY: at least 64 elements behind the domain belong to the buffer.
    unsafe { b.plane_ptr(0).cast::<f32>().add(i).read() }
}

#[test]
fn gather_scatter_and_strides() {
    // out[2 i] = a[ids[i]], out[2 i + 1] = a[n - 1 - i]
    let (n, lanes) = (48i64, 16u16);
    let base = Expr::var("v") * lanes as i64;
    let ids = load("ids", ScalarType::I32, ramp(index(base.clone()), 1, lanes));
    let gathered = load("a", F32, index(ids));
    let reversed = load("a", F32, ramp(index(i32(n - 1) - base.clone()), -1, lanes));
    let body = serial(
        "v",
        i32(n / lanes as i64),
        Stmt::Block(vec![
            store("out", ramp(index(base.clone() * 2), 2, lanes), gathered),
            store("out", ramp(index(base * 2) + 1, 2, lanes), reversed),
        ]),
    );
    let c = build().input("a", F32).input("ids", ScalarType::I32).output("out", F32).compile(body);
    let a = numbers(n as usize);
    let ids: Vec<i32> = (0..n as i32).map(|i| i * 7 % n as i32).collect();
    let out = empty(F32, 2 * n as i32);
    run(&c, &[("a", &filled(&a)), ("ids", &filled(&ids)), ("out", &out)], &[]);
    let got = out.to_vec::<f32>();
    for i in 0..n as usize {
        assert_eq!(got[2 * i], a[ids[i] as usize]);
        assert_eq!(got[2 * i + 1], a[n as usize - 1 - i]);
    }
}

/// Every second, third, ... element, and backwards, of several types and widths: the last lane is the last element there is.
#[test]
fn strided_loads_touch_nothing_else() {
    for lanes in [2u16, 4, 8, 16] {
        for stride in [-2i64, -1, 2, 3, 4, 5] {
            let n = (lanes as i64 - 1) * stride.abs() + 1;
            let first = if stride < 0 { n - 1 } else { 0 };
            let at = || ramp(Expr::int(Type::I64, first), stride, lanes);
            let dense = ramp(Expr::int(Type::I64, 0), 1, lanes);
            let body = Stmt::Block(vec![
                store("out", dense.clone(), load("a", F32, at())),
                store("bytes_out", dense, load("bytes", ScalarType::U8, at())),
            ]);
            let c = build().input("a", F32).input("bytes", ScalarType::U8);
            let c = c.output("out", F32).output("bytes_out", ScalarType::U8).compile(body);
            let a = numbers(n as usize);
            let bytes: Vec<u8> = (0..n).map(|i| (i * 37 % 251) as u8).collect();
            let (out, bytes_out) = (empty(F32, lanes as i32), empty(ScalarType::U8, lanes as i32));
            let given = [filled(&a), filled(&bytes)];
            let buffers = [("a", &given[0]), ("bytes", &given[1]), ("out", &out), ("bytes_out", &bytes_out)];
            run(&c, &buffers, &[]);
            let (out, bytes_out) = (out.to_vec::<f32>(), bytes_out.to_vec::<u8>());
            for i in 0..lanes as i64 {
                let from = (first + i * stride) as usize;
                let i = i as usize;
                assert_eq!((out[i], bytes_out[i]), (a[from], bytes[from]), "{lanes} lanes, stride {stride}");
            }
        }
    }
}

/// As without masks; the other lanes are zeros, and a page that must not be read may lie behind the last lane that counts.
#[test]
fn masked_strided_loads_read_their_lanes() {
    for lanes in [2u16, 4, 8, 16] {
        for stride in [-1i64, 2, 3, 4] {
            let n = (lanes as i64 - 1) * stride.abs() + 1;
            let first = if stride < 0 { n - 1 } else { 0 };
            let dense = || ramp(Expr::int(Type::I64, 0), 1, lanes);
            let at = ramp(Expr::int(Type::I64, first), stride, lanes);
            let mask = load("m", ScalarType::Bool, dense());
            let body = store("out", dense(), load_if("a", F32, at, Some(mask)));
            let c = build().input("a", F32).input("m", ScalarType::Bool).output("out", F32).compile(body);
            let a: Vec<f32> = (1..=n).map(|i| i as f32).collect();
            for bits in [0u32, 1, 0b1011_0010_1110_0101, 0xffff] {
                let mask: Vec<bool> = (0..lanes).map(|l| bits >> l & 1 == 1).collect();
                let out = empty(F32, lanes as i32);
                run(&c, &[("a", &filled(&a)), ("m", &filled(&mask)), ("out", &out)], &[]);
                let lane = |l: usize| a[(first + l as i64 * stride) as usize];
                let want: Vec<f32> =
                    mask.iter().enumerate().map(|(l, &m)| if m { lane(l) } else { 0.0 }).collect();
                assert_eq!(out.to_vec::<f32>(), want, "{lanes} lanes, stride {stride}");
            }
        }
    }
}

/// A small stride needs no gather, masked or not; a long one does.
#[test]
fn small_strides_are_dense_loads() {
    let gathers = |stride: i64, masked: bool| {
        let at = ramp(Expr::int(Type::I64, 0), stride, 8);
        let mask = masked.then(|| load("m", ScalarType::Bool, ramp(Expr::int(Type::I64, 0), 1, 8)));
        let body = store("out", ramp(Expr::int(Type::I64, 0), 1, 8), load_if("a", F32, at, mask));
        let f = build().input("a", F32).input("m", ScalarType::Bool).output("out", F32).lowered(body);
        let listing = crate::backend::llvm::listing(&f, &Target::host()).unwrap();
        listing.llvm.contains("llvm.masked.gather")
    };
    assert!(!gathers(2, false) && !gathers(3, false) && !gathers(4, false) && !gathers(-1, false));
    assert!(gathers(5, false) && gathers(-2, false) && gathers(5, true));
    assert!(!gathers(2, true) && !gathers(4, true) && !gathers(-1, true));
}

/// Lanes that are masked out are read from elsewhere where no instruction gathers under a mask: LLVM would jump over each.
#[test]
fn masked_gathers_have_no_branches() {
    let dense = || ramp(Expr::int(Type::I64, 0), 1, 8);
    let branches = |level: Level, masked: bool| {
        let (ids, mask) = (load("ids", ScalarType::I32, dense()), load("m", ScalarType::Bool, dense()));
        let body = store("out", dense(), load_if("a", F32, index(ids), masked.then_some(mask)));
        let f = build().input("a", F32).input("ids", ScalarType::I32).input("m", ScalarType::Bool);
        let f = f.output("out", F32).lowered(body);
        let asm = crate::backend::llvm::listing(&f, &level.anywhere()).unwrap().asm;
        asm.lines().filter(|l| l.trim_start().starts_with('j')).count()
    };
    for level in [Level::X86V2, Level::X86V3, Level::X86V4] {
        assert_eq!(branches(level, true), branches(level, false), "{level:?}");
    }
}

/// Levels of x86-64, of which this machine may have some: elements of how many bytes have instructions that mask them differs.
const LEVELS: [Level; 3] = [Level::X86V2, Level::X86V3, Level::X86V4];

/// The conditional jumps and the lines of a function's machine code.
fn jumps(f: &LoweredFunction, level: Level) -> [usize; 2] {
    let asm = crate::backend::llvm::listing(f, &level.anywhere()).unwrap().asm;
    let jump = |l: &&str| l.trim_start().starts_with('j') && !l.trim_start().starts_with("jmp");
    [asm.lines().filter(jump).count(), asm.lines().count()]
}

/// Elements of any size, under all masks: only those of true lanes are read and written.
#[test]
fn masked_vectors_touch_their_lanes() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(target: &Target, numbers: &[T], zero: T, old: T) {
        let lanes = numbers.len() as u16;
        let dense = || ramp(Expr::int(Type::I64, 0), 1, lanes);
        let mask = || load("m", ScalarType::Bool, dense());
        let read = load_if("a", T::TYPE, dense(), Some(mask()));
        // What is read in the first place, and the same under a mask.
        let body = vec![store("all", dense(), read.clone()), store_if("some", dense(), read, Some(mask()))];
        let c = build().input("a", T::TYPE).input("m", ScalarType::Bool);
        let c = c.output("all", T::TYPE).output("some", T::TYPE);
        let f = c.lowered(Stmt::Block(body));
        let c = Compiled::from_lowered(&f, c.signature, target).unwrap();
        for bits in [0u64, 1, 1 << (lanes - 1), 0b1011_0010_1110_0101_1011_0110, (1 << 20) - 1, u64::MAX] {
            let mask: Vec<bool> = (0..lanes).map(|l| bits >> l & 1 == 1).collect();
            let (all, some) = (empty(T::TYPE, lanes.into()), filled(&vec![old; numbers.len()]));
            let buffers = [("a", &filled(numbers)), ("m", &filled(&mask)), ("all", &all), ("some", &some)];
            run(&c, &buffers, &[]);
            let chosen = |other: T| -> Vec<T> {
                numbers.iter().zip(&mask).map(|(&v, &m)| if m { v } else { other }).collect()
            };
            let name = format!("{:?}, {lanes} lanes, {bits:b}", T::TYPE);
            assert_eq!((all.to_vec::<T>(), some.to_vec::<T>()), (chosen(zero), chosen(old)), "{name}");
        }
    }
    let targets = LEVELS.iter().filter_map(|l| l.target().ok()).chain([Target::host()]);
    for target in targets {
        for lanes in [2u8, 8, 16, 24, 32] {
            check(&target, &(1..=lanes).collect::<Vec<u8>>(), 0, 99);
            check(&target, &(1..=lanes).map(|i| i16::from(i) * -300).collect::<Vec<_>>(), 0, 99);
            check(&target, &(1..=lanes).map(|i| f32::from(i) * 0.5).collect::<Vec<_>>(), 0.0, 99.0);
            check(&target, &(1..=lanes).map(|i| f64::from(i) * -0.5).collect::<Vec<_>>(), 0.0, 99.0);
            check(&target, &(0..lanes).map(|i| i % 3 == 0).collect::<Vec<_>>(), false, true);
        }
    }
}

/// LLVM would jump over each lane of a mask that no instruction takes: here it is one loop, however many lanes there are.
#[test]
fn masks_without_instructions_are_loops() {
    let masked = |lanes: u16, ty: ScalarType| {
        let dense = || ramp(Expr::int(Type::I64, 0), 1, lanes);
        let mask = || load("m", ScalarType::Bool, dense());
        let body = store_if("out", dense(), load_if("a", ty, dense(), Some(mask())), Some(mask()));
        build().input("a", ty).input("m", ScalarType::Bool).output("out", ty).lowered(body)
    };
    for level in LEVELS {
        for ty in [ScalarType::U8, ScalarType::I16, F32] {
            let [few, many] = [8, 32].map(|lanes| jumps(&masked(lanes, ty), level));
            assert_eq!(few[0], many[0], "{level:?}, {ty:?}");
            assert!(many[1] < 200, "{level:?}, {ty:?}: {} lines", many[1]);
        }
    }
    assert_eq!(jumps(&masked(32, ScalarType::U8), Level::X86V4)[0], 0);
}

/// Indices that lie side by side in memory go from there to the addresses, not through a vector.
#[test]
fn lookups_read_their_indices_from_memory() {
    let looked_up = |ty: ScalarType, add: i64| {
        let dense = || ramp(Expr::int(Type::I64, 0), 1, 16);
        let ids = load("ids", ScalarType::I16, dense()).cast(ScalarType::I32);
        let at = if add == 0 { ids } else { ids + add };
        let body = store("out", dense(), load("a", ty, index(at)));
        build().input("a", ty).input("ids", ScalarType::I16).output("out", ty).lowered(body)
    };
    let extracted = |f: &LoweredFunction| {
        let asm = crate::backend::llvm::listing(f, &Level::X86V3.anywhere()).unwrap().asm;
        ["vpextr", "vmovq", "vgather"].iter().map(|op| asm.matches(op).count()).sum::<usize>()
    };
    assert_eq!(extracted(&looked_up(ScalarType::U8, 0)), 0);
    assert_eq!(extracted(&looked_up(F32, 0)), 0);
    assert!(extracted(&looked_up(ScalarType::U8, 1)) > 0);
}

#[test]
fn narrow_and_bool_gathers() {
    let lanes = 16u16;
    let ids = load("ids", ScalarType::I32, ramp(Expr::int(Type::I64, 0), 1, lanes));
    let flags = load("flags", ScalarType::Bool, index(ids.clone()));
    let mask = load("mask", ScalarType::Bool, ramp(Expr::int(Type::I64, 0), 1, lanes));
    let bytes = load_if("bytes", ScalarType::U8, index(ids), Some(mask));
    let value = Expr::select(flags, bytes.cast(ScalarType::I32), Expr::int(Type::I32.with_lanes(lanes), -1));
    let body = store("out", ramp(Expr::int(Type::I64, 0), 1, lanes), value);
    let c = build()
        .input("ids", ScalarType::I32)
        .input("flags", ScalarType::Bool)
        .input("mask", ScalarType::Bool);
    let c = c.input("bytes", ScalarType::U8).output("out", ScalarType::I32).compile(body);
    let ids: Vec<i32> = (0..16).map(|i| (i * 5) % 16).collect();
    let flags: Vec<bool> = (0..16).map(|i| i % 3 != 0).collect();
    let mask: Vec<bool> = (0..16).map(|i| i % 4 != 1).collect();
    let bytes: Vec<u8> = (0..16).map(|i| 200 + i).collect();
    let out = empty(ScalarType::I32, 16);
    let given = [filled(&ids), out];
    let buffers = [
        ("ids", &given[0]),
        ("flags", &filled(&flags)),
        ("mask", &filled(&mask)),
        ("bytes", &filled(&bytes)),
        ("out", &given[1]),
    ];
    run(&c, &buffers, &[]);
    for (i, got) in given[1].to_vec::<i32>().into_iter().enumerate() {
        let id = ids[i] as usize;
        let byte = if mask[i] { bytes[id] as i32 } else { 0 };
        assert_eq!(got, if flags[id] { byte } else { -1 });
    }
}

/// The documented tree: lane i with lane i + ceil(n / 2), until one is left.
fn tree(mut v: Vec<f32>) -> f32 {
    while v.len() > 1 {
        let half = v.len().div_ceil(2);
        for i in half..v.len() {
            v[i - half] += v[i];
        }
        v.truncate(half);
    }
    v[0]
}

#[test]
fn reductions_follow_the_fixed_tree() {
    for lanes in [2u16, 3, 4, 5, 7, 8, 13, 16] {
        let all = load("a", F32, ramp(Expr::int(Type::I64, 0), 1, lanes));
        let sum = Expr::new(ExprKind::VectorReduce(BinaryOp::Add, all.clone()), Type::F32);
        let max = Expr::new(ExprKind::VectorReduce(BinaryOp::Max, all), Type::F32);
        let body = Stmt::Block(vec![
            store("out", Expr::int(Type::I64, 0), sum),
            store("out", Expr::int(Type::I64, 1), max),
        ]);
        let c = build().input("a", F32).output("out", F32).compile(body);
        let a: Vec<f32> = numbers(lanes as usize).iter().map(|x| x * 1e3 + 1.0).collect();
        let out = empty(F32, 2);
        run(&c, &[("a", &filled(&a)), ("out", &out)], &[]);
        let want = [tree(a.clone()), a.iter().copied().fold(f32::NEG_INFINITY, f32::max)];
        assert_eq!(out.to_vec::<f32>(), want, "{lanes} lanes");
    }
}

/// Strip sums in parallel, each with a heap row, then their sum in order.
fn strip_sums(strip: i64) -> Stmt {
    let (s, x) = (Expr::var("s"), Expr::var("x"));
    let i = &s * strip + x.clone();
    let partial = |i: &Expr| load("partial", F32, index(i.clone()));
    let fill = serial(
        "x",
        i32(strip),
        store("row", index(x.clone()), load("a", F32, index(i)) * Expr::param("scale", Type::F32)),
    );
    let add =
        serial("x", i32(strip), store("partial", index(s.clone()), partial(&s) + load("row", F32, index(x))));
    let strips = extent("a") / strip;
    let body = allocate("row", F32, i32(strip), Memory::Heap, vec![fill, add]);
    let total = load("out", F32, Expr::int(Type::I64, 0)) + partial(&Expr::var("k"));
    allocate(
        "partial",
        F32,
        strips.clone(),
        Memory::Heap,
        vec![
            for_loop(ForKind::Parallel, "s", i32(0), strips.clone(), body),
            store("out", Expr::int(Type::I64, 0), Expr::from(0.0f32)),
            serial("k", strips, store("out", Expr::int(Type::I64, 0), total)),
        ],
    )
}

#[test]
fn bits_do_not_depend_on_the_thread_count() {
    let (strip, n) = (37, 37 * 29);
    let c = build().input("a", F32).output("out", F32).param("scale", F32).compile(strip_sums(strip));
    let a = numbers(n);
    let mut want = 0.0f32;
    for s in a.chunks(strip as usize) {
        let mut partial = 0.0f32;
        s.iter().for_each(|x| partial += x * 1.7);
        want += partial;
    }
    for threads in [1, 2, 3, 5, 8] {
        let pool = Pool::new(threads);
        let out = empty(F32, 1);
        let a = filled(&a);
        let buffers = [("a", &a), ("out", &out)];
        let mut bound = c.bind(&buffers, &[("scale", 1.7f32.into())]).unwrap();
        for _ in 0..50 {
            bound.run(&pool).unwrap();
            assert_eq!(out.to_vec::<f32>()[0].to_bits(), want.to_bits(), "{threads} threads");
        }
    }
}

#[test]
fn loads_are_not_remembered_across_stores() {
    // out[0] = a; out[1] = out[0] + a; out[0] = 5; out[1] += out[0], sharing one load node of out[0].
    let at = |i| Expr::int(Type::I64, i);
    let (first, a) = (load("out", F32, at(0)), load("a", F32, at(0)));
    let twice = first.clone() + a.clone();
    let body = Stmt::Block(vec![
        store("out", at(0), a),
        store("out", at(1), twice.clone()),
        store("out", at(0), Expr::from(5.0f32)),
        store("out", at(2), twice),
        serial("k", i32(3), store("out", at(0), first.clone() + first.clone())),
        store("out", at(3), first),
    ]);
    let c = build().input("a", F32).output("out", F32).compile(body);
    let out = empty(F32, 4);
    run(&c, &[("a", &filled(&[2.0f32])), ("out", &out)], &[]);
    assert_eq!(out.to_vec::<f32>(), [40.0, 4.0, 7.0, 40.0]);
}

#[test]
fn values_of_a_branch_stay_in_it() {
    // The shared node `x + 1` is emitted in the branch first and used behind it.
    let shared = load("a", F32, Expr::int(Type::I64, 0)) + Expr::from(1.0f32);
    let cond = Expr::param("go", Type::BOOL);
    let then = Box::new(store("out", Expr::int(Type::I64, 0), shared.clone()));
    let otherwise = Some(Box::new(store("out", Expr::int(Type::I64, 0), -shared.clone())));
    let body =
        Stmt::Block(vec![Stmt::If { cond, then, otherwise }, store("out", Expr::int(Type::I64, 1), shared)]);
    let c = build().input("a", F32).output("out", F32).param("go", ScalarType::Bool).compile(body);
    for (go, want) in [(true, [3.0, 3.0]), (false, [-3.0, 3.0])] {
        let out = empty(F32, 2);
        run(&c, &[("a", &filled(&[2.0f32])), ("out", &out)], &[("go", go.into())]);
        assert_eq!(out.to_vec::<f32>(), want);
    }
}

#[test]
fn in_place_pairs_share_memory() {
    // Two passes over x through two names: y[i] = x[i] + x[i - 1] must see what was stored a moment ago.
    let i = Expr::var("i");
    let sum = load("x", F32, index(i.clone())) + load("x", F32, index(&i - &i32(1)));
    let body = for_loop(ForKind::Serial, "i", i32(1), extent("x") - 1, store("y", index(i), sum));
    let mut b = build().input("x", F32).output("y", F32);
    b.aliases.push(("y".into(), "x".into()));
    b.signature.buffers[1].in_place_of = Some("x".into());
    let c = b.compile(body);
    let x = filled(&[1.0f32, 1.0, 1.0, 1.0]);
    run(&c, &[("x", &x), ("y", &x)], &[]);
    assert_eq!(x.to_vec::<f32>(), [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn frame_memory_and_non_temporal_stores() {
    let lanes = 16u16;
    let (zero, base) = (Expr::int(Type::I64, 0), Expr::var("v") * lanes as i64);
    let acc = load("acc", F32, ramp(zero.clone(), 1, lanes));
    let next = acc.clone() + load("a", F32, ramp(index(base.clone()), 1, lanes));
    let streaming = Stmt::Store {
        buffer: "out".into(),
        index: ramp(index(base), 1, lanes),
        value: acc,
        predicate: None,
        aligned: true,
        non_temporal: true,
    };
    for memory in [Memory::Stack, Memory::Register] {
        let step =
            Stmt::Block(vec![store("acc", ramp(zero.clone(), 1, lanes), next.clone()), streaming.clone()]);
        let body = allocate("acc", F32, i32(16), memory, vec![serial("v", i32(4), step)]);
        let b = build().input("a", F32).output("out", F32);
        let text = crate::backend::llvm::listing(&b.lowered(body.clone()), &Target::host()).unwrap();
        assert!(text.asm.contains("movnt"), "{}", text.asm);
        assert!(!text.optimized.contains("alloca"), "{}", text.optimized);
        let c = b.compile(body);
        let a = numbers(64);
        let out = empty(F32, 64);
        run(&c, &[("a", &filled(&a)), ("out", &out)], &[]);
        let mut sum = [0.0f32; 16];
        for (a, got) in a.chunks(16).zip(out.to_vec::<f32>().chunks(16)) {
            sum.iter_mut().zip(a).for_each(|(s, a)| *s += a);
            assert_eq!(got, sum);
        }
    }
}

#[test]
fn failures_are_reported_once_and_free_memory() {
    let check = |bound: i64| {
        let small = load("a", F32, index(Expr::var("s"))).lt(Expr::from(bound as f32));
        Stmt::Assert { cond: small, message: "too large at".into(), args: vec![Expr::var("s"), i32(bound)] }
    };
    let inner = allocate("t", F32, i32(100), Memory::Heap, vec![check(3)]);
    let body = allocate(
        "u",
        F32,
        i32(50),
        Memory::Heap,
        vec![
            for_loop(ForKind::Parallel, "s", i32(0), extent("a"), inner),
            store("out", Expr::int(Type::I64, 0), Expr::from(1.0f32)),
        ],
    );
    let c = build().input("a", F32).output("out", F32).compile(body);
    for threads in [1, 2, 3, 8] {
        let out = empty(F32, 1);
        let a = filled(&[0.0f32, 1.0, 4.0, 2.0, 5.0, 6.0]);
        let error = c.run(&Pool::new(threads), &[("a", &a), ("out", &out)], &[]).unwrap_err();
        assert_eq!(error.to_string(), "t: too large at: 2, 3");
        assert_eq!(out.to_vec::<f32>(), [0.0]);
    }
    let out = empty(F32, 1);
    run(&c, &[("a", &filled(&[0.0f32])), ("out", &out)], &[]);
    assert_eq!(out.to_vec::<f32>(), [1.0]);
}

#[test]
fn running_out_of_memory_is_an_error() {
    let huge = Expr::int(Type::I64, 1 << 60);
    let body =
        allocate("t", F32, huge, Memory::Heap, vec![store("t", Expr::int(Type::I64, 0), Expr::from(1.0f32))]);
    let c = build().output("out", F32).compile(body);
    let error = c.run(&Pool::new(1), &[("out", &empty(F32, 1))], &[]).unwrap_err();
    assert_eq!(error.to_string(), "t: out of memory: cannot allocate 4611686018427387904 bytes");
}

#[test]
fn wrong_arguments_are_named() {
    let body = map("out", 1, |at| at("a", F32) * Expr::param("s", Type::F32));
    let c = build().input("a", F32).output("out", F32).param("s", F32).compile(body);
    let (a, out, ints) = (filled(&[1.0f32]), empty(F32, 1), filled(&[1i32]));
    let flat = Buffer::new(BufferSpec::new(F32, &[2, 2])).unwrap();
    let (one, s) = (Scalar::F32(1.0), "s");
    let pool = Pool::new(1);
    let fails = |buffers: &[(&str, &Buffer)], params: &[(&str, Scalar)]| {
        c.run(&pool, buffers, params).unwrap_err().to_string()
    };
    assert_eq!(fails(&[("a", &a)], &[(s, one)]), "t: out: no buffer is bound to it");
    assert_eq!(
        fails(&[("a", &a), ("out", &out), ("b", &a)], &[(s, one)]),
        "t: b: the pipeline has no such buffer"
    );
    assert_eq!(
        fails(&[("a", &ints), ("out", &out)], &[(s, one)]),
        "t: a: expected elements of type f32, got i32"
    );
    assert_eq!(fails(&[("a", &flat), ("out", &out)], &[(s, one)]), "t: a: expected 1 dimensions, got 2");
    assert_eq!(
        fails(&[("a", &a), ("out", &a)], &[(s, one)]),
        "t: out: shares its buffer with a, but is not in place of it"
    );
    assert_eq!(fails(&[("a", &a), ("out", &out)], &[]), "t: s: no value is given for this parameter");
    assert_eq!(
        fails(&[("a", &a), ("out", &out)], &[(s, Scalar::F64(1.0))]),
        "t: s: expected a f32, got a f64"
    );
}

#[test]
fn what_lowering_should_have_removed_is_refused() {
    let call = Expr::call("f", F32, vec![Expr::var("x")], 0);
    let e = build().output("out", F32).refused(store("out", Expr::int(Type::I64, 0), call));
    assert!(matches!(e, Error::Backend { .. }), "{e}");
    let e = build().output("out", F32).refused(store("nowhere", Expr::int(Type::I64, 0), Expr::from(0.0f32)));
    assert!(e.to_string().contains("nowhere"), "{e}");
}

#[test]
fn a_run_costs_little() {
    let body = store("out", Expr::int(Type::I64, 0), load("a", F32, Expr::int(Type::I64, 0)));
    let c = build().input("a", F32).output("out", F32).compile(body);
    let (a, out, pool) = (filled(&[1.0f32]), empty(F32, 1), Pool::new(1));
    let buffers = [("a", &a), ("out", &out)];
    let mut bound = c.bind(&buffers, &[]).unwrap();
    let best = (0..20)
        .map(|_| {
            let start = std::time::Instant::now();
            (0..1000).for_each(|_| bound.run(&pool).unwrap());
            start.elapsed()
        })
        .min()
        .unwrap();
    assert!(best.as_nanos() / 1000 < 2000, "{best:?} for 1000 runs");
}

#[test]
fn promised_ranges_are_checked_when_values_change() {
    let ids = load("ids", ScalarType::I32, index(Expr::var("v")));
    let body = serial("v", extent("ids"), store("out", index(Expr::var("v")), load("a", F32, index(ids))));
    let mut b = build().input("ids", ScalarType::I32).input("a", F32).output("out", F32);
    b.signature.buffers[0].value_range = Some((i32(0), extent("a") - 1));
    let c = b.compile(body);
    let (ids, a, out, pool) = (filled(&[2i32, 0]), filled(&[1.0f32, 2.0, 3.0]), empty(F32, 2), Pool::new(1));
    let buffers = [("ids", &ids), ("a", &a), ("out", &out)];
    let mut bound = c.bind(&buffers, &[]).unwrap();
    bound.run(&pool).unwrap();
    assert_eq!(out.to_vec::<f32>(), [3.0, 1.0]);
    assert!(ids.set(&[1], 0, 3));
    let e = bound.run(&pool).unwrap_err().to_string();
    assert_eq!(e, "t: ids: value 3 is not in [0, 2]");
}
