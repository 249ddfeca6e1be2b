//! Kernels as LLVM writes them, for the oldest and the newest target, against values computed here; in every order of threads.

mod common;

use common::{Arg, Machine, ORDERS};

const TARGETS: [&str; 2] = [include_str!("samples/sm_75.ptx"), include_str!("samples/sm_100.ptx")];

/// A machine for each target and order.
fn machines() -> impl Iterator<Item = (Machine, sumsq_ptx::Order)> {
    TARGETS.iter().flat_map(|text| ORDERS.map(|order| (Machine::new(text), order)))
}

#[test]
fn a_sum_over_lanes_warps_and_blocks() {
    let x: Vec<f32> = (0..2048).map(|i| (i as f32 * 0.37).sin()).collect();
    let y: Vec<f32> = (0..2048).map(|i| (i as f32 * 0.11).cos() * 1e3).collect();
    // The tree of the kernel: four of a thread, 32 lanes by halves, eight warps in a row.
    let thread = |t: usize| {
        (0..4).map(|k| f64::from(x[4 * t + k]) * f64::from(y[4 * t + k])).reduce(|a, b| a + b).unwrap()
    };
    let warp = |w: usize| {
        let mut lanes: Vec<f64> = (0..32).map(|l| thread(32 * w + l)).collect();
        for d in [16, 8, 4, 2, 1] {
            lanes = (0..32).map(|l| lanes[l] + lanes[if l + d < 32 { l + d } else { l }]).collect();
        }
        lanes[0]
    };
    let expected: Vec<f64> = (0..2).map(|b| (0..8).fold(0.0, |sum, w| sum + warp(8 * b + w))).collect();
    for (mut m, order) in machines() {
        let (px, py, out) = (m.upload_f32(&x), m.upload_f32(&y), m.unwritten(16));
        m.launch("dot", 2, 256, &[Arg::Pointer(px), Arg::Pointer(py), Arg::Pointer(out)], order).unwrap();
        let came = m.download(out, 16);
        let came: Vec<f64> =
            came.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(came, expected);
    }
}

#[test]
fn a_tile_in_shared_memory_and_weights_in_constant_memory() {
    let x: Vec<f32> = (0..512).map(|i| (i as f32).sqrt()).collect();
    let weights = [1.0f32, 2.0, 3.0, 0.5];
    let at = |b: usize, t: usize| x[256 * b + t % 256];
    let expected = |i: usize| (0..4).fold(0.0f32, |sum, k| at(i / 256, i % 256 + k).mul_add(weights[k], sum));
    for (mut m, order) in machines() {
        let (px, py) = (m.upload_f32(&x), m.unwritten(4 * 512));
        m.launch("blur", 2, 256, &[Arg::Pointer(px), Arg::Pointer(py)], order).unwrap();
        assert!(m.download_f32(py, 512).iter().enumerate().all(|(i, came)| *came == expected(i)));
    }
}

#[test]
fn a_histogram_by_atomics() {
    let x: Vec<u8> = (0..1024u32).map(|i| (i * i % 251) as u8).collect();
    let mut expected = [0u32; 16];
    x.iter().for_each(|v| expected[usize::from(v >> 4)] += 1);
    for (mut m, order) in machines() {
        let (px, counts) = (m.upload(&x), m.upload_u32(&[0; 16]));
        m.launch("histogram", 4, 256, &[Arg::Pointer(px), Arg::Pointer(counts)], order).unwrap();
        assert_eq!(m.download_u32(counts, 16), expected);
    }
}

#[test]
fn calls_switches_and_local_arrays() {
    let v = [1.5f32, -2.0, 3.25, 8.0];
    for which in 0..8u32 {
        for (mut m, order) in machines() {
            let (p, out) = (m.upload_f32(&v), m.upload_f32(&[99.0; 6]));
            let args = [
                Arg::Pointer(p),
                Arg::Pointer(out),
                Arg::Int(which),
                Arg::Int(0xf0),
                Arg::Int(100),
                Arg::Int(0x4200),
            ];
            m.launch("calls", 1, 1, &args, order).unwrap();
            let chosen = 2.0 * v[which as usize % 4];
            let other = if which % 2 == 1 { chosen } else { -chosen };
            let narrow = [1.0, 2.0, 3.0, -4.0][which as usize % 4] + 100.0 - 16.0;
            let branch = [10.0, chosen, 12.0, 14.0, 14.0, other, -1.0, -1.0][which as usize];
            let branch = if which == 3 { f32::from_bits(1_096_810_496) } else { branch };
            let last = if which == 2 { 12.5 } else { 99.0 };
            assert_eq!(m.download_f32(out, 6), [chosen, other, narrow, 4.0, branch, last], "{which}");
        }
    }
}

#[test]
fn bytes_of_pixels() {
    let x: Vec<u8> = (0..4 * 15).map(|i| (i * 37 % 256) as u8).collect();
    for (mut m, order) in machines() {
        let (px, py) = (m.upload(&x), m.unwritten(16 * 15));
        m.launch_shaped("pixels", [5, 3, 1], [1, 1, 1], &[Arg::Pointer(px), Arg::Pointer(py)], order)
            .unwrap();
        assert!(m.download_f32(py, 60).iter().zip(&x).all(|(came, x)| *came == f32::from(*x)));
    }
}

#[test]
fn a_module_says_what_it_needs() {
    let m = Machine::new(TARGETS[0]);
    assert_eq!((m.module.version(), m.module.target(), m.module.kernels().len()), ((6, 3), 75, 5));
    let kernel = |name: &str| &m.module.kernels()[m.module.kernel(name).unwrap()];
    assert_eq!((kernel("dot").shared, kernel("blur").shared, kernel("pixels").shared), (64, 1024, 0));
    assert_eq!(kernel("calls").params, [(0, 8), (8, 8), (16, 4), (20, 1), (22, 2), (24, 2)]);
    assert_eq!(kernel("calls").local, 64);
    assert_eq!(m.module.variable("start").map(|v| v.1), Some(8));
}

#[test]
fn blocks_wait_for_each_other() {
    // The first thread of each block counts itself and waits until all have; then the neighbour's number is there.
    let body = "setp.ne.u32 %p1, %r1, 0;
mul.wide.u32 %rd10, %r2, 4;
add.s64 %rd11, %rd2, %rd10;
@%p1 bra WAIT;
st.global.b32 [%rd11], %r2;
fence.acq_rel.gpu;
atom.global.add.u32 %r10, [%rd1], 1;
mov.u32 %r11, %nctaid.x;
TURN:
ld.acquire.gpu.global.b32 %r12, [%rd1];
setp.ne.b32 %p2, %r12, %r11;
@%p2 bra TURN;
WAIT:
bar.sync 0;
@%p1 ret;
add.s32 %r13, %r2, 1;
rem.u32 %r13, %r13, %r11;
mul.wide.u32 %rd12, %r13, 4;
add.s64 %rd13, %rd2, %rd12;
ld.global.b32 %r14, [%rd13];
st.global.b32 [%rd11+64], %r14;";
    for order in ORDERS {
        let mut m = Machine::new(&common::kernel(64, "", body));
        let (count, out) = (m.upload_u32(&[0]), m.unwritten(128));
        m.launch_together("k", 16, 64, &[Arg::Pointer(count), Arg::Pointer(out)], order).unwrap();
        assert!(
            m.download_u32(out + 64, 16).iter().enumerate().all(|(b, came)| *came == (b as u32 + 1) % 16)
        );
    }
}
