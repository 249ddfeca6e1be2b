; Kernels of `tests/samples.rs`, assembled by LLVM for the oldest and the newest target:
;   llc -march=nvptx64 -mcpu=sm_75 -mattr=+ptx63 samples.ll -o sm_75.ptx
;   llc -march=nvptx64 -mcpu=sm_100 -mattr=+ptx86 samples.ll -o sm_100.ptx
target triple = "nvptx64-nvidia-cuda"

@tile = internal addrspace(3) global [256 x float] undef, align 16
@partial = internal addrspace(3) global [8 x double] undef, align 8
@bins = internal addrspace(3) global [16 x i32] undef, align 4
@weights = internal addrspace(4) constant [4 x float] [float 1.0, float 2.0, float 3.0, float 0.5], align 16
@start = addrspace(1) global [4 x i16] [i16 1, i16 2, i16 3, i16 -4], align 8

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare i32 @llvm.nvvm.shfl.sync.down.i32(i32, i32, i32, i32)
declare float @llvm.fma.f32(float, float, float)

; A sum of doubles: lanes by shuffles of both halves, warps through shared memory; one number a block.
define internal double @lane_sum(double %x) noinline {
entry:
  br label %loop
loop:
  %d = phi i32 [ 16, %entry ], [ %half, %loop ]
  %s = phi double [ %x, %entry ], [ %sum, %loop ]
  %bits = bitcast double %s to i64
  %lo = trunc i64 %bits to i32
  %hi64 = lshr i64 %bits, 32
  %hi = trunc i64 %hi64 to i32
  %lo2 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %lo, i32 %d, i32 31)
  %hi2 = call i32 @llvm.nvvm.shfl.sync.down.i32(i32 -1, i32 %hi, i32 %d, i32 31)
  %l = zext i32 %lo2 to i64
  %h = zext i32 %hi2 to i64
  %hs = shl i64 %h, 32
  %b2 = or i64 %hs, %l
  %other = bitcast i64 %b2 to double
  %sum = fadd double %s, %other
  %half = lshr i32 %d, 1
  %more = icmp ne i32 %half, 0
  br i1 %more, label %loop, label %end
end:
  ret double %sum
}

define ptx_kernel void @dot(ptr noalias readonly align 16 %x, ptr noalias readonly align 16 %y, ptr align 8 %out) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %b, 256
  %i = add i32 %m, %t
  %w = sext i32 %i to i64
  %px = getelementptr <4 x float>, ptr %x, i64 %w
  %py = getelementptr <4 x float>, ptr %y, i64 %w
  %vx = load <4 x float>, ptr %px, align 16
  %vy = load <4 x float>, ptr %py, align 16
  %dx = fpext <4 x float> %vx to <4 x double>
  %dy = fpext <4 x float> %vy to <4 x double>
  %p = fmul <4 x double> %dx, %dy
  %p0 = extractelement <4 x double> %p, i32 0
  %p1 = extractelement <4 x double> %p, i32 1
  %p2 = extractelement <4 x double> %p, i32 2
  %p3 = extractelement <4 x double> %p, i32 3
  %s1 = fadd double %p0, %p1
  %s2 = fadd double %s1, %p2
  %s3 = fadd double %s2, %p3
  %lanes = call double @lane_sum(double %s3)
  %lane = and i32 %t, 31
  %warp = lshr i32 %t, 5
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %store, label %wait
store:
  %w64 = zext i32 %warp to i64
  %ps = getelementptr [8 x double], ptr addrspace(3) @partial, i64 0, i64 %w64
  store double %lanes, ptr addrspace(3) %ps
  br label %wait
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %leader = icmp eq i32 %t, 0
  br i1 %leader, label %loop, label %end
loop:
  %k = phi i64 [ 0, %wait ], [ %k1, %loop ]
  %acc = phi double [ 0.0, %wait ], [ %acc1, %loop ]
  %pk = getelementptr [8 x double], ptr addrspace(3) @partial, i64 0, i64 %k
  %vk = load double, ptr addrspace(3) %pk
  %acc1 = fadd double %acc, %vk
  %k1 = add i64 %k, 1
  %done = icmp eq i64 %k1, 8
  br i1 %done, label %write, label %loop
write:
  %b64 = zext i32 %b to i64
  %po = getelementptr double, ptr %out, i64 %b64
  store double %acc1, ptr %po
  br label %end
end:
  ret void
}

; A blur of four with a tile in shared memory and weights in constant memory.
define ptx_kernel void @blur(ptr noalias readonly %x, ptr noalias %y) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %b, 256
  %i = add i32 %m, %t
  %w = sext i32 %i to i64
  %px = getelementptr float, ptr %x, i64 %w
  %v = load float, ptr %px
  %t64 = zext i32 %t to i64
  %pt = getelementptr [256 x float], ptr addrspace(3) @tile, i64 0, i64 %t64
  store float %v, ptr addrspace(3) %pt
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %loop
loop:
  %k = phi i64 [ 0, %0 ], [ %k1, %loop ]
  %acc = phi float [ 0.0, %0 ], [ %acc1, %loop ]
  %at = add i64 %t64, %k
  %in = and i64 %at, 255
  %ps = getelementptr [256 x float], ptr addrspace(3) @tile, i64 0, i64 %in
  %vs = load float, ptr addrspace(3) %ps
  %pw = getelementptr [4 x float], ptr addrspace(4) @weights, i64 0, i64 %k
  %vw = load float, ptr addrspace(4) %pw
  %acc1 = call float @llvm.fma.f32(float %vs, float %vw, float %acc)
  %k1 = add i64 %k, 1
  %done = icmp eq i64 %k1, 4
  br i1 %done, label %end, label %loop
end:
  %py = getelementptr float, ptr %y, i64 %w
  store float %acc1, ptr %py
  ret void
}

; A histogram of bytes: atomic in shared memory, then into the grid's.
define ptx_kernel void @histogram(ptr noalias readonly %x, ptr %counts) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %few = icmp ult i32 %t, 16
  %t64 = zext i32 %t to i64
  %pb = getelementptr [16 x i32], ptr addrspace(3) @bins, i64 0, i64 %t64
  br i1 %few, label %clear, label %wait
clear:
  store i32 0, ptr addrspace(3) %pb
  br label %wait
wait:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %m = mul i32 %b, 256
  %i = add i32 %m, %t
  %w = sext i32 %i to i64
  %px = getelementptr i8, ptr %x, i64 %w
  %v = load i8, ptr %px
  %bin = lshr i8 %v, 4
  %bin64 = zext i8 %bin to i64
  %pv = getelementptr [16 x i32], ptr addrspace(3) @bins, i64 0, i64 %bin64
  %old = atomicrmw add ptr addrspace(3) %pv, i32 1 syncscope("block") monotonic
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %few, label %add, label %end
add:
  %n = load i32, ptr addrspace(3) %pb
  %pc = getelementptr i32, ptr %counts, i64 %t64
  %old2 = atomicrmw add ptr %pc, i32 %n syncscope("device") monotonic
  br label %end
end:
  ret void
}

; Functions with vectors, aggregates and memory of the caller; a switch; a local array with an index; narrow types and globals.
define internal {float, double} @two(float %x, i1 %c) noinline {
  %d = fpext float %x to double
  %n = fneg double %d
  %r = select i1 %c, double %d, double %n
  %a = insertvalue {float, double} undef, float %x, 0
  %b = insertvalue {float, double} %a, double %r, 1
  ret {float, double} %b
}

define internal <4 x float> @twice(<4 x float> %x, ptr %p) noinline {
  %b = fadd <4 x float> %x, %x
  store <4 x float> %b, ptr %p
  ret <4 x float> %b
}

define ptx_kernel void @calls(ptr addrspace(1) align 16 %p, ptr addrspace(1) %out, i32 %which, i8 %small, i16 %short, half %h) #1 {
  %local = alloca [16 x float], align 16
  %v = load <4 x float>, ptr addrspace(1) %p, align 16
  %v2 = call <4 x float> @twice(<4 x float> %v, ptr %local)
  %in = and i32 %which, 3
  %in64 = zext i32 %in to i64
  %pl = getelementptr float, ptr %local, i64 %in64
  %chosen = load float, ptr %pl
  %odd = trunc i32 %which to i1
  %pair = call {float, double} @two(float %chosen, i1 %odd)
  %f = extractvalue {float, double} %pair, 0
  %d = extractvalue {float, double} %pair, 1
  %df = fptrunc double %d to float
  %o1 = getelementptr float, ptr addrspace(1) %out, i64 1
  %o2 = getelementptr float, ptr addrspace(1) %out, i64 2
  %o3 = getelementptr float, ptr addrspace(1) %out, i64 3
  %o4 = getelementptr float, ptr addrspace(1) %out, i64 4
  %o5 = getelementptr float, ptr addrspace(1) %out, i64 5
  store float %f, ptr addrspace(1) %out
  store float %df, ptr addrspace(1) %o1
  %pg = getelementptr [4 x i16], ptr addrspace(1) @start, i64 0, i64 %in64
  %g = load i16, ptr addrspace(1) %pg
  %sum = add i16 %g, %short
  %wide = sext i16 %sum to i32
  %s8 = sext i8 %small to i32
  %all = add i32 %wide, %s8
  %fi = sitofp i32 %all to float
  store float %fi, ptr addrspace(1) %o2
  %h2 = fadd half %h, 1.0
  %hf = fpext half %h2 to float
  store float %hf, ptr addrspace(1) %o3
  switch i32 %which, label %other [ i32 0, label %a0
    i32 1, label %a1
    i32 2, label %a2
    i32 3, label %a3
    i32 4, label %a4
    i32 5, label %a5 ]
a0:
  store float 10.0, ptr addrspace(1) %o4
  br label %e
a1:
  store float %f, ptr addrspace(1) %o4
  br label %e
a2:
  store float 12.0, ptr addrspace(1) %o4
  store float 12.5, ptr addrspace(1) %o5
  br label %e
a3:
  store i32 1096810496, ptr addrspace(1) %o4
  br label %e
a4:
  store float 14.0, ptr addrspace(1) %o4
  br label %e
a5:
  store float %df, ptr addrspace(1) %o4
  br label %e
other:
  store float -1.0, ptr addrspace(1) %o4
  br label %e
e:
  ret void
}

; Pixels of four bytes, a grid in two dimensions.
define ptx_kernel void @pixels(ptr noalias readonly align 4 %x, ptr noalias align 16 %y) #1 {
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %nx = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %row = mul i32 %by, %nx
  %i = add i32 %row, %bx
  %w = zext i32 %i to i64
  %px = getelementptr <4 x i8>, ptr %x, i64 %w
  %v = load <4 x i8>, ptr %px, align 4
  %f = uitofp <4 x i8> %v to <4 x float>
  %py = getelementptr <4 x float>, ptr %y, i64 %w
  store <4 x float> %f, ptr %py, align 16
  ret void
}
attributes #0 = { "nvvm.reqntid"="256,1,1" }
attributes #1 = { "nvvm.reqntid"="1,1,1" }
