/* Arrays in the memory of a GPU, by descriptor and by DLPack, whose structs are declared here as published. `gpu`, `cpu` or `refused`. */
#define _POSIX_C_SOURCE 200112L
#include "sumsq.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct DLTensor {
    void *data;
    struct { int32_t device_type, device_id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *);
} DLManagedTensor;

typedef struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

enum { W = 4, H = 3, N = W * H };

static const char *ENERGY = "local W, H = Dim('W', 0), Dim('H', 1)\n"
                            "local X = Unknown('X', opt_float2, {W, H}, 0)\n"
                            "local A = Array('A', opt_float, {W, H}, 1)\n"
                            "local M = Array('M', uint8, {W, H}, 2)\n"
                            "local w = Param('w', opt_float, 3)\n"
                            "Energy(w * M(0, 0) * (X(0, 0) - A(0, 0)), X(0, 0) - X(1, 0), X(0, 0) - X(0, 1))\n";

static void must(int good, const char *what)
{
    if (!good) {
        printf("failed: %s: %s\n", what, sumsq_last_error());
        exit(1);
    }
}

static void expect(int status, int expected, const char *words)
{
    if (status != expected || (words && !strstr(sumsq_last_error(), words))) {
        printf("status %d, expected %d and %s: %s\n", status, expected, words ? words : "", sumsq_last_error());
        exit(1);
    }
}

/* The driver, as a program of its own would use it. */
static struct {
    int (*init)(unsigned), (*retain)(void **, int), (*current)(void *), (*release)(int);
    int (*alloc)(uint64_t *, size_t), (*free)(uint64_t), (*up)(uint64_t, const void *, size_t), (*down)(void *, uint64_t, size_t);
    int (*stream)(void **, unsigned), (*wait)(void *), (*end)(void *), (*within)(uint64_t, uint64_t, size_t, void *);
} cu;

static void find(void *function, const char *name)
{
    static void *library;
    if (!library) {
        library = dlopen("libcuda.so", RTLD_NOW);
    }
    must(library != NULL, "libcuda");
    *(void **)function = dlsym(library, name);
    must(*(void **)function != NULL, name);
}

static void *stream;

static void start_driver(void)
{
    void *context;
    find(&cu.init, "cuInit");
    find(&cu.retain, "cuDevicePrimaryCtxRetain");
    find(&cu.release, "cuDevicePrimaryCtxRelease_v2");
    find(&cu.current, "cuCtxSetCurrent");
    find(&cu.alloc, "cuMemAlloc_v2");
    find(&cu.free, "cuMemFree_v2");
    find(&cu.up, "cuMemcpyHtoD_v2");
    find(&cu.down, "cuMemcpyDtoH_v2");
    find(&cu.within, "cuMemcpyDtoDAsync_v2");
    find(&cu.stream, "cuStreamCreate");
    find(&cu.wait, "cuStreamSynchronize");
    find(&cu.end, "cuStreamDestroy_v2");
    must(!cu.init(0) && !cu.retain(&context, 0) && !cu.current(context) && !cu.stream(&stream, 1), "a context");
}

static uint64_t on_device(const void *content, size_t bytes)
{
    uint64_t address;
    must(!cu.alloc(&address, bytes) && !cu.up(address, content, bytes), "memory of the device");
    return address;
}

static void inputs(float *x, double *a, uint8_t *m)
{
    int i;
    for (i = 0; i < N; i++) {
        x[2 * i] = x[2 * i + 1] = 0.5f;
        a[i] = (i * 5) % 7;
        m[i] = (uint8_t)(i % 3);
    }
}

static sumsq_options options_of(int backend, int precision)
{
    sumsq_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    sumsq_options_init(&options);
    options.backend = backend;
    options.precision = precision;
    options.threads = 1;
    options.iterations = 3;
    options.linear_iterations = 20;
    return options;
}

static sumsq_problem *problem_of(const sumsq_options *options)
{
    sumsq_solver *solver;
    sumsq_problem *problem;
    must(!sumsq_solver_from_text("image.t", ENERGY, options, &solver), "the energy");
    must(!sumsq_problem_new(solver, &problem), "the problem");
    sumsq_solver_free(solver);
    must(!sumsq_set_dim(problem, "W", W) && !sumsq_set_dim(problem, "H", H), "the dims");
    return problem;
}

/* X after a solve with numbers of the host. */
static void expected(const sumsq_options *options, double *x)
{
    sumsq_problem *problem = problem_of(options);
    float start[2 * N], w = 0.5f;
    double a[N];
    uint8_t m[N];
    inputs(start, a, m);
    must(!sumsq_set(problem, "X", SUMSQ_FLOAT32, start, sizeof start) && !sumsq_set(problem, "A", SUMSQ_FLOAT64, a, sizeof a) &&
             !sumsq_set(problem, "M", SUMSQ_UINT8, m, sizeof m) && !sumsq_set(problem, "w", SUMSQ_FLOAT32, &w, sizeof w),
         "numbers of the host");
    must(!sumsq_solve(problem, NULL, NULL, NULL), "a solve on the host's numbers");
    must(!sumsq_get(problem, "X", SUMSQ_FLOAT64, x, 2 * N * sizeof *x), "x");
    sumsq_problem_free(problem);
}

static int deleted;

static void delete_old(struct DLManagedTensor *self)
{
    deleted += 1;
    free(self->manager_ctx);
}

static void delete_new(struct DLManagedTensorVersioned *self)
{
    deleted += 1;
    free(self->manager_ctx);
}

static DLTensor tensor(void *data, int kind, int code, int bits, int ndim, int64_t *shape, int64_t *strides)
{
    DLTensor t;
    memset(&t, 0, sizeof t);
    t.data = data;
    t.device.device_type = kind;
    t.ndim = ndim;
    t.dtype.code = (uint8_t)code;
    t.dtype.bits = (uint8_t)bits;
    t.dtype.lanes = 1;
    t.shape = shape;
    t.strides = strides;
    return t;
}

static DLManagedTensor *old_of(DLTensor t)
{
    DLManagedTensor *made = malloc(sizeof *made);
    made->dl_tensor = t;
    made->manager_ctx = made;
    made->deleter = delete_old;
    return made;
}

static DLManagedTensorVersioned *new_of(DLTensor t)
{
    DLManagedTensorVersioned *made = calloc(1, sizeof *made);
    made->version.major = 1;
    made->dl_tensor = t;
    made->manager_ctx = made;
    made->deleter = delete_new;
    return made;
}

static sumsq_device_array described(uint64_t data, int type, int dims, const int64_t *shape)
{
    sumsq_device_array array;
    memset(&array, 0, sizeof array);
    array.size = sizeof array;
    array.data = (void *)(uintptr_t)data;
    array.type = type;
    array.dims = dims;
    array.shape = shape;
    array.stream = stream;
    return array;
}

static void same(const double *came, const double *expected, double within, const char *what)
{
    int i;
    for (i = 0; i < 2 * N; i++) {
        double off = came[i] - expected[i];
        if (!(off <= within && -off <= within)) {
            printf("%s: x[%d] = %.17g, expected %.17g\n", what, i, came[i], expected[i]);
            exit(1);
        }
    }
}

static void gpu(void)
{
    sumsq_options options = options_of(SUMSQ_BACKEND_CUDA, SUMSQ_F64);
    sumsq_problem *problem = problem_of(&options);
    sumsq_report report;
    float start[2 * N], w = 0.5f, found[2 * N];
    double a[N], x[2 * N], now[2 * N];
    uint8_t m[N];
    int64_t image[3] = {H, W, 2}, padded[2] = {6, 1}, flat[2] = {H, W};
    double rows[H * 6];
    sumsq_device_array bound;
    DLManagedTensor *out;
    DLManagedTensorVersioned *versioned;
    uint64_t at_x, at_a, at_m;
    int i;
    expected(&options, x);
    inputs(start, a, m);
    for (i = 0; i < N; i++) {
        rows[i / W * 6 + i % W] = a[i];
    }
    at_x = on_device(start, sizeof start);
    at_a = on_device(rows, sizeof rows);
    at_m = on_device(m, sizeof m);
    bound = described(at_x, SUMSQ_FLOAT32, 3, image);
    must(!sumsq_bind(problem, "X", &bound), "X");
    {
        DLTensor t = tensor((void *)(uintptr_t)at_a, 2, 2, 64, 2, flat, padded);
        must(!sumsq_bind_dlpack_versioned(problem, "A", new_of(t), stream), "A");
        t = tensor((void *)(uintptr_t)at_m, 2, 1, 8, 2, flat, NULL);
        must(!sumsq_bind_dlpack(problem, "M", old_of(t), stream), "M");
    }
    must(!sumsq_set(problem, "w", SUMSQ_FLOAT32, &w, sizeof w), "w");
    must(!sumsq_solve(problem, NULL, NULL, NULL), "a solve on the GPU's memory");
    report.size = sizeof report;
    must(!sumsq_get_report(problem, &report), "the report");
    must(report.device_copies >= 3, "copies are counted");
    must(deleted == 0, "tensors on the GPU are kept");
    /* The unknown is where it was, behind the solve on our stream. */
    {
        uint64_t copy = on_device(start, sizeof start);
        must(!cu.within(copy, at_x, sizeof start, stream) && !cu.wait(stream) && !cu.down(found, copy, sizeof found), "a copy");
        must(!cu.free(copy), "free");
    }
    for (i = 0; i < 2 * N; i++) {
        now[i] = found[i];
    }
    same(now, x, 1e-6, "the caller's memory");
    must(!sumsq_get(problem, "X", SUMSQ_FLOAT64, now, sizeof now), "x");
    same(now, x, 1e-6, "sumsq_get");
    must(!sumsq_export_dlpack(problem, "X", stream, &out) && !sumsq_export_dlpack_versioned(problem, "X", stream, &versioned), "exports");
    must(out->dl_tensor.device.device_type == 2 && out->dl_tensor.ndim == 3 && out->dl_tensor.dtype.bits == 64, "an export's type");
    must(versioned->version.major == 1 && out->dl_tensor.shape[0] == H && out->dl_tensor.strides[0] == 2 * W, "an export's shape");
    sumsq_problem_free(problem);
    must(deleted == 2, "tensors are deleted with the problem");
    must(!cu.wait(stream), "wait");
    must(!cu.down(now, (uint64_t)(uintptr_t)out->dl_tensor.data, sizeof now), "an export outlives its problem");
    same(now, x, 0, "the export");
    out->deleter(out);
    versioned->deleter(versioned);
    must(!cu.free(at_x) && !cu.free(at_a) && !cu.free(at_m), "free");
    printf("solved, %d copies\n", (int)report.device_copies);
}

static void cpu(void)
{
    sumsq_options options = options_of(SUMSQ_BACKEND_CPU, SUMSQ_F32);
    sumsq_problem *problem = problem_of(&options);
    float start[2 * N], w = 0.5f;
    double a[N], x[2 * N], down[N], now[2 * N];
    uint8_t m[N + 1];
    int64_t image[3] = {H, W, 2}, flat[2] = {H, W}, upwards[2] = {-W, 1};
    DLManagedTensor *out;
    DLTensor t;
    int i;
    expected(&options, x);
    inputs(start, a, m + 1);
    for (i = 0; i < N; i++) {
        down[(H - 1 - i / W) * W + i % W] = a[i];
    }
    must(!sumsq_bind_dlpack(problem, "X", old_of(tensor(start, 1, 2, 32, 3, image, NULL)), NULL), "X");
    must(!sumsq_bind_dlpack_versioned(problem, "A", new_of(tensor(down + (H - 1) * W, 1, 2, 64, 2, flat, upwards)), NULL), "A");
    t = tensor(m, 1, 1, 8, 2, flat, NULL);
    t.byte_offset = 1;
    must(!sumsq_bind_dlpack(problem, "M", old_of(t), NULL), "M");
    must(!sumsq_bind_dlpack(problem, "w", old_of(tensor(&w, 1, 2, 32, 0, NULL, NULL)), NULL), "w");
    must(deleted == 4, "tensors of the host are deleted at once");
    must(!sumsq_solve(problem, NULL, NULL, NULL), "a solve");
    must(!sumsq_export_dlpack(problem, "X", NULL, &out), "an export");
    sumsq_problem_free(problem);
    must(out->dl_tensor.device.device_type == 1 && out->dl_tensor.dtype.bits == 32, "an export's type");
    must((uintptr_t)out->dl_tensor.data % 256 == 0, "an export's alignment");
    for (i = 0; i < 2 * N; i++) {
        now[i] = ((float *)out->dl_tensor.data)[i];
    }
    same(now, x, 0, "the export");
    out->deleter(out);
    printf("solved\n");
}

static void refused(void)
{
    sumsq_options options = options_of(SUMSQ_BACKEND_CUDA, SUMSQ_F32);
    sumsq_problem *problem = problem_of(&options), *of_cpu;
    float host[2 * N];
    int64_t image[3] = {H, W, 2}, flat[2] = {H, W}, none[2] = {0, 0}, far[3] = {1000, 2, 1};
    uint64_t at;
    sumsq_device_array bound;
    DLManagedTensor *out, *given;
    DLManagedTensorVersioned *versioned;
    DLTensor t;
    memset(host, 0, sizeof host);
    at = on_device(host, sizeof host);
    bound = described(0, SUMSQ_FLOAT32, 3, image);
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "null");
    bound = described(at + 1, SUMSQ_FLOAT32, 3, image);
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "misaligned");
    bound = described((uint64_t)(uintptr_t)host, SUMSQ_FLOAT32, 3, image);
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "memory of the host");
    bound = described(at, SUMSQ_FLOAT32, 3, image);
    bound.device = 1;
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "memory of device 1");
    bound.device = 0;
    bound.strides = image;
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "several elements in one place");
    bound.strides = far;
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_POINTER, "the allocation there has");
    bound.strides = NULL;
    bound.dims = 2;
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_DATA, "expected the shape [3, 4, 2]");
    bound.dims = 65;
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_ARGUMENT, "dims");
    bound = described(at, 99, 3, image);
    expect((int)sumsq_bind(problem, "X", &bound), SUMSQ_ERROR_ARGUMENT, "99");
    bound = described(at, SUMSQ_FLOAT32, 0, NULL);
    expect((int)sumsq_bind(problem, "w", &bound), SUMSQ_ERROR_ARGUMENT, "sumsq_set");
    bound = described(at, SUMSQ_FLOAT32, 2, flat);
    bound.strides = none;
    expect((int)sumsq_bind(problem, "A", &bound), SUMSQ_OK, NULL);
    expect((int)sumsq_bind(problem, "A", NULL), SUMSQ_ERROR_ARGUMENT, "null");
    bound.size = 0;
    expect((int)sumsq_bind(problem, "A", &bound), SUMSQ_ERROR_ARGUMENT, "size");

    /* What is refused stays the caller's. */
    t = tensor((void *)(uintptr_t)at, 2, 2, 16, 3, image, NULL);
    given = old_of(t);
    expect((int)sumsq_bind_dlpack(problem, "X", given, NULL), SUMSQ_ERROR_ARGUMENT, "16 bits");
    given->dl_tensor.dtype.bits = 32;
    given->dl_tensor.device.device_type = 10;
    expect((int)sumsq_bind_dlpack(problem, "X", given, NULL), SUMSQ_ERROR_ARGUMENT, "kind 10");
    given->dl_tensor.device.device_type = 2;
    given->dl_tensor.device.device_id = 3;
    expect((int)sumsq_bind_dlpack(problem, "X", given, NULL), SUMSQ_ERROR_POINTER, "memory of device 3");
    expect((int)sumsq_bind_dlpack(problem, "X", NULL, NULL), SUMSQ_ERROR_ARGUMENT, "null");
    must(deleted == 0, "nothing is deleted");
    given->deleter(given);
    t.dtype.bits = 32;
    versioned = new_of(t);
    versioned->flags = 1;
    expect((int)sumsq_bind_dlpack_versioned(problem, "X", versioned, NULL), SUMSQ_ERROR_ARGUMENT, "reading only");
    versioned->flags = 0;
    versioned->version.major = 2;
    expect((int)sumsq_bind_dlpack_versioned(problem, "X", versioned, NULL), SUMSQ_ERROR_ARGUMENT, "DLPack 2.0");
    versioned->deleter(versioned);
    expect((int)sumsq_export_dlpack(problem, "X", NULL, &out), SUMSQ_ERROR_STATE, "no solve");
    expect((int)sumsq_export_dlpack(problem, "A", NULL, &out), SUMSQ_ERROR_ARGUMENT, "no unknown");
    must(out == NULL, "nothing is exported");
    sumsq_problem_free(problem);

    options = options_of(SUMSQ_BACKEND_CPU, SUMSQ_F32);
    of_cpu = problem_of(&options);
    bound = described(at, SUMSQ_FLOAT32, 3, image);
    expect((int)sumsq_bind(of_cpu, "X", &bound), SUMSQ_ERROR_ARGUMENT, "SUMSQ_BACKEND_CUDA");
    sumsq_problem_free(of_cpu);
    must(!cu.free(at), "free");
    printf("refused\n");
}

int main(int argc, char **argv)
{
    must(argc == 2, "gpu, cpu or refused");
    if (strcmp(argv[1], "cpu") == 0) {
        cpu();
        return 0;
    }
    start_driver();
    if (strcmp(argv[1], "gpu") == 0) {
        gpu();
    } else {
        refused();
    }
    must(!cu.end(stream) && !cu.release(0), "the end");
    return 0;
}
