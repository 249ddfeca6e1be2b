// A sweep: a function of a pixel, at all pixels, whose results are summed. A kernel with nvcc; with -DSERIAL a loop of the host, to try the
// arithmetic where no GPU is.

#pragma once
#include "energy.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#ifdef SERIAL

template <class F> void sweep(int n, const F &f, double *sum) {
    double all = 0.0;
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) all += double(f(x, y));
    if (sum) *sum += all;
}

inline float *to_device(const std::vector<float> &v) {
    float *p = (float *)malloc(v.size() * sizeof(float));
    memcpy(p, v.data(), v.size() * sizeof(float));
    return p;
}
inline void to_host(double *to, const double *from, size_t n) { memcpy(to, from, n * sizeof(double)); }
inline void copy(float *to, const float *from, size_t n) { memcpy(to, from, n * sizeof(float)); }
template <class T> void clear(T *p, size_t n) { memset(p, 0, n * sizeof(T)); }
template <class T> T *allocate(size_t n) { return (T *)calloc(n, sizeof(T)); }
inline void release(void *p) { free(p); }

// Seconds of something; `graph`: as one graph.
inline double seconds(bool, const std::function<void()> &f) {
    auto start = std::chrono::steady_clock::now();
    f();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#else

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        cudaError_t e = (call);                                                                              \
        if (e != cudaSuccess) {                                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e));                       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

inline cudaStream_t stream() {
    static cudaStream_t s = [] {
        cudaStream_t made;
        CHECK(cudaStreamCreate(&made));
        return made;
    }();
    return s;
}

// Singles within a warp and a block, as published; doubles between blocks.
template <class F> __global__ void __launch_bounds__(256) sweep_kernel(int n, F f, double *sum) {
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    float own = x < n && y < n ? f(x, y) : 0.0f;
    if (!sum) return;
    __shared__ float warps[8];
    for (int d = 16; d > 0; d /= 2) own += __shfl_down_sync(0xffffffffu, own, d);
    if (threadIdx.x == 0) warps[threadIdx.y] = own;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        float all = 0.0f;
        for (int k = 0; k < 8; k++) all += warps[k];
        atomicAdd(sum, double(all));
    }
}

template <class F> void sweep(int n, const F &f, double *sum) {
    dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8);
    sweep_kernel<<<grid, block, 0, stream()>>>(n, f, sum);
    CHECK(cudaGetLastError());
}

inline float *to_device(const std::vector<float> &v) {
    float *p;
    CHECK(cudaMalloc(&p, v.size() * sizeof(float)));
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}
inline void to_host(double *to, const double *from, size_t n) {
    CHECK(cudaStreamSynchronize(stream()));
    CHECK(cudaMemcpy(to, from, n * sizeof(double), cudaMemcpyDeviceToHost));
}
inline void copy(float *to, const float *from, size_t n) {
    CHECK(cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToDevice, stream()));
}
template <class T> void clear(T *p, size_t n) { CHECK(cudaMemsetAsync(p, 0, n * sizeof(T), stream())); }
template <class T> T *allocate(size_t n) {
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T)));
    CHECK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}
inline void release(void *p) { CHECK(cudaFree(p)); }

inline double seconds(bool graph, const std::function<void()> &f) {
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t ready = nullptr;
    if (graph) {
        CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeGlobal));
        f();
        CHECK(cudaStreamEndCapture(stream(), &recorded));
        CHECK(cudaGraphInstantiate(&ready, recorded, 0));
    }
    CHECK(cudaStreamSynchronize(stream()));
    auto start = std::chrono::steady_clock::now();
    if (graph) CHECK(cudaGraphLaunch(ready, stream()));
    else f();
    CHECK(cudaStreamSynchronize(stream()));
    double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (graph) {
        CHECK(cudaGraphExecDestroy(ready));
        CHECK(cudaGraphDestroy(recorded));
    }
    return time;
}

#endif
