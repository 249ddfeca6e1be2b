; Kernels of the tests of the driver's functions: llc -march=nvptx64 -mcpu=sm_75 -mattr=+ptx63 kernels.ll
target triple = "nvptx64-nvidia-cuda"
@table = addrspace(1) global [4 x float] [float 1.0, float 2.0, float 3.0, float 4.0], align 16
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare void @cudaGraphSetConditional(i64, i32)

; y[i] += a x[i]
define ptx_kernel void @axpy(ptr noalias readonly %x, ptr noalias %y, i32 %n, float %a) #0 {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %m = mul i32 %b, 64
  %i = add i32 %m, %t
  %in = icmp slt i32 %i, %n
  br i1 %in, label %body, label %end
body:
  %w = sext i32 %i to i64
  %px = getelementptr float, ptr %x, i64 %w
  %py = getelementptr float, ptr %y, i64 %w
  %vx = load float, ptr %px
  %vy = load float, ptr %py
  %p = fmul float %vx, %a
  %s = fadd float %p, %vy
  store float %s, ptr %py
  br label %end
end:
  ret void
}

; Doubles a number until it reaches a limit; asks for another turn while it has not.
define ptx_kernel void @double_until(ptr %x, i32 %limit, i64 %condition) #1 {
  %v = load i32, ptr %x
  %d = shl i32 %v, 1
  store i32 %d, ptr %x
  %again = icmp slt i32 %d, %limit
  %z = zext i1 %again to i32
  call void @cudaGraphSetConditional(i64 %condition, i32 %z)
  ret void
}

; Stores without regard for anything.
define ptx_kernel void @store(ptr %x, i32 %v) #1 {
  store i32 %v, ptr %x
  ret void
}
attributes #0 = { "nvvm.reqntid"="64,1,1" }
attributes #1 = { "nvvm.reqntid"="1,1,1" }
