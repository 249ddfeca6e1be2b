/* sumsq from C: non-linear least squares over images, volumes, meshes and graphs. Link with -lsumsq_capi.
 *
 *     sumsq_solver *solver;
 *     sumsq_problem *problem;
 *     sumsq_report report = {sizeof report};
 *     if (sumsq_solver_from_file("energy.t", NULL, &solver)) fail(sumsq_last_error());
 *     sumsq_problem_new(solver, &problem);
 *     sumsq_set_dim(problem, "N", n);
 *     sumsq_set(problem, "X", SUMSQ_FLOAT32, x, sizeof x);
 *     ...
 *     sumsq_solve(problem, NULL, NULL, NULL);
 *     sumsq_get(problem, "X", SUMSQ_FLOAT32, x, sizeof x);
 *     sumsq_get_report(problem, &report);
 *     sumsq_problem_free(problem);
 *     sumsq_solver_free(solver);
 *
 * Every energy here is E, the sum of squared residuals (Opt.h reports half of it).
 *
 * Errors. Every function that can fail returns a status; sumsq_last_error() then says what was wrong: with an energy the file,
 * the line and a hint, with numbers what was expected and what came. Nothing has changed then, except where it is said.
 * Memory. Numbers are copied when set and when got; no function keeps a pointer of the caller's, but for memory of a GPU that is bound
 * (sumsq_bind, sumsq_bind_dlpack).
 * Threads. Use a problem from one thread at a time, but for sumsq_cancel. A solver can be shared; it is freed with the last problem
 * that uses it.
 */
#ifndef SUMSQ_H
#define SUMSQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled energy, for any dims. */
typedef struct sumsq_solver sumsq_solver;
/* Numbers for an energy, and the solve in progress on them. */
typedef struct sumsq_problem sumsq_problem;

typedef enum sumsq_status {
    SUMSQ_OK = 0,
    SUMSQ_ERROR_ARGUMENT = 1,   /* a null pointer, an unknown name or enumerator, an option out of range */
    SUMSQ_ERROR_ENERGY = 2,     /* an energy that cannot be read, is wrong, or takes more than its budgets */
    SUMSQ_ERROR_DATA = 3,       /* numbers that do not fit the energy: wrong size or type, missing, an index out of range; or a
                                   problem that does not fit into memory, or a GPU's */
    SUMSQ_ERROR_BACKEND = 4,    /* the back end is not available (no driver, no such device, an old one, one that another process has to
                                   itself), or this machine lacks what the target has */
    SUMSQ_ERROR_NOT_FINITE = 5, /* the energy, or a derivative, is not finite at the start */
    SUMSQ_ERROR_STATE = 6,      /* called out of order, or on a problem that is inside its callback */
    SUMSQ_ERROR_INTERNAL = 7,   /* a defect of sumsq */
    SUMSQ_ERROR_DEVICE = 8,     /* a GPU that was there failed: an illegal access, a timeout, a memory error, a lost device. The CPU still
                                   works in this process */
    SUMSQ_ERROR_POINTER = 9     /* a pointer that the GPU cannot use: null, misaligned, memory of the host alone, of another device or
                                   context, or with less behind it than the array takes; or a stream of another context */
} sumsq_status;

typedef enum sumsq_type {
    SUMSQ_FLOAT32 = 1,
    SUMSQ_FLOAT64 = 2,
    SUMSQ_BOOL = 3, /* one byte */
    SUMSQ_INT8 = 4,
    SUMSQ_INT16 = 5,
    SUMSQ_INT32 = 6,
    SUMSQ_INT64 = 7,
    SUMSQ_UINT8 = 8,
    SUMSQ_UINT16 = 9,
    SUMSQ_UINT32 = 10,
    SUMSQ_UINT64 = 11
} sumsq_type;

typedef enum sumsq_method { SUMSQ_LM = 0, SUMSQ_GN = 1 } sumsq_method;

typedef enum sumsq_precision {
    SUMSQ_MIXED = 0, /* float64 state, energy and gradient, float32 linear solver */
    SUMSQ_F32 = 1,
    SUMSQ_F64 = 2
} sumsq_precision;

typedef enum sumsq_preconditioner {
    SUMSQ_PRECONDITIONER_AUTO = 0,
    SUMSQ_PRECONDITIONER_NONE = 1,
    SUMSQ_PRECONDITIONER_JACOBI = 2,
    SUMSQ_PRECONDITIONER_BLOCK_JACOBI = 3,
    SUMSQ_PRECONDITIONER_MULTIGRID = 4,
    SUMSQ_PRECONDITIONER_AGGREGATION = 5
} sumsq_preconditioner;

/* How much of robust losses J^T J holds. */
typedef enum sumsq_losses {
    SUMSQ_LOSSES_DECLARED = 0,     /* as the energy says of each */
    SUMSQ_LOSSES_FIRST_ORDER = 1,  /* their slope: residuals are re-weighted */
    SUMSQ_LOSSES_SECOND_ORDER = 2  /* their curvature, too */
} sumsq_losses;

/* Instructions that generated code may use. Code of a level gives the same bits on every machine that has it. */
typedef enum sumsq_target {
    SUMSQ_TARGET_NATIVE = 0, /* this machine's */
    SUMSQ_TARGET_X86_64_V2 = 1,
    SUMSQ_TARGET_X86_64_V3 = 2,
    SUMSQ_TARGET_X86_64_V4 = 3,
    SUMSQ_TARGET_AARCH64 = 4 /* with NEON; on such a machine alone */
} sumsq_target;

/* The machine that generated code runs on. */
typedef enum sumsq_backend {
    SUMSQ_BACKEND_AUTO = 0, /* a GPU where there is one and the work pays for starting it, else the CPU */
    SUMSQ_BACKEND_CPU = 1,
    SUMSQ_BACKEND_CUDA = 2
} sumsq_backend;

/* Why a solve ended. The unknowns are always those of the last good step. */
typedef enum sumsq_termination {
    SUMSQ_RUNNING = 0,
    SUMSQ_GRADIENT_TOLERANCE = 1,
    SUMSQ_FUNCTION_TOLERANCE = 2,
    SUMSQ_STEP_TOLERANCE = 3,
    SUMSQ_NOISE_FLOOR = 4, /* the decrease drowns in rounding */
    SUMSQ_MAX_ITERATIONS = 5,
    SUMSQ_MAX_SECONDS = 6,
    SUMSQ_USER_ABORT = 7,
    SUMSQ_MIN_RADIUS = 8,
    SUMSQ_NO_FREE_UNKNOWN = 9, /* everything is excluded */
    SUMSQ_DIVERGED = 10,       /* Gauss-Newton: E is not finite after the step */
    SUMSQ_INVALID_STEPS = 11,  /* LM: no valid model or no finite E at any radius */
    SUMSQ_INTERRUPTED = 12,    /* by sumsq_cancel */
    SUMSQ_FAILED = 13          /* the engine failed in mid-solve */
} sumsq_termination;

/* What a solve may be told. Fill it with sumsq_options_init, then change fields; a null pointer stands for the defaults.
 * Later versions add fields at the end: `size` tells which ones the caller knows. */
typedef struct sumsq_options {
    size_t size;                  /* sizeof(sumsq_options) */
    int32_t method;               /* sumsq_method; SUMSQ_LM */
    int32_t precision;            /* sumsq_precision; fixed when the energy is compiled */
    int32_t preconditioner;       /* sumsq_preconditioner; fixed when the energy is compiled */
    int32_t threads;              /* fixed when the energy is compiled; at most 1024; 0: all cores */
    int64_t iterations;           /* steps at most, rejected ones included; -1: 50, or 1000 for LM where all unknowns are globals */
    int64_t linear_iterations;    /* PCG iterations per step at most; 0: 500, or ten times the free unknowns if linear_tolerance
                                     is given */
    double linear_tolerance;      /* stop PCG at this relative residual; 0: off */
    double forcing;               /* stop PCG when its model stalls at this rate; 0.01 */
    double radius;                /* first trust-region radius; 0: 1e4, or 1e-3 for LM where all unknowns are globals */
    double max_radius;            /* 1e16 */
    double min_radius;            /* 1e-32 */
    double min_relative_decrease; /* of an accepted step, actual over predicted; 1e-3 */
    double function_tolerance;    /* LM ends when an accepted step changes E by at most this times E; 0: off, -1: 1e-6, or off where
                                     all unknowns are globals */
    double gradient_tolerance;    /* LM ends when |g_i| <= this |column i of J| sqrt(E) for all i, g = J^T r; 1e-10 */
    double gradient_rtol;         /* LM ends when max|g| is at most this times max|g| at the start; 0 */
    double max_seconds;           /* heeded between PCG iterations; 0: no limit */
    double min_lm_diagonal;       /* bounds of the diagonal of J^T J that damping adds a share of, relative to its largest
                                     entry for the same channel of the same unknown; 1e-6 */
    double max_lm_diagonal;       /* 1e32 */
    int32_t losses;               /* sumsq_losses; fixed when the energy is compiled */
    int32_t running_scales;       /* 1: damp with the largest value so far of each entry of that diagonal; -1: only where all unknowns are
                                     globals */
    double step_tolerance;        /* LM ends when |s| is at most this times both |x| and the longest step; 1e-8, 0: off */
    int64_t max_memory;           /* bytes that the numbers and buffers of a problem may take, fixed when the energy is compiled; 0: what
                                     there is */
    int32_t target;               /* sumsq_target; fixed when the energy is compiled */
    /* Budgets: what an energy may take to be read, derived and compiled, so that a text that grows without end is an error
     * (SUMSQ_ERROR_ENERGY) with its line. */
    uint32_t max_depth;            /* operations inside each other; 400 */
    uint32_t max_entries;          /* entries of a Vector; 4096 */
    uint32_t max_residuals;        /* scalar residuals and conditions; 20,000 */
    uint64_t max_nodes;            /* nodes of its expressions, with operands and derivatives; 4,000,000 */
    uint64_t max_steps;            /* visits of nodes; 100,000,000 */
    uint64_t max_lua_instructions; /* instructions of Lua; 5,000,000 */
    uint64_t max_lua_memory;       /* bytes of its text, and of Lua's memory; 32 MiB */
    uint64_t max_instructions;     /* LLVM instructions of a pipeline; 400,000 */
    double max_compile_seconds;    /* seconds of derivation and compilation; 60 */
    int32_t backend;               /* sumsq_backend; fixed when the energy is compiled */
    int32_t device;                /* number of the CUDA device, as the driver counts them; fixed when the energy is compiled */
    double eta;                    /* with multigrid and aggregation, stop PCG at sqrt(r.z) <= eta sqrt(r0.z0); 0: as the steps turn out,
                                      from 0.1 (multigrid) or 1e-3 (aggregation) to 0.3 */
} sumsq_options;

/* How a solve stands. Set `size` before the call; fields beyond it are not written. */
typedef struct sumsq_report {
    size_t size;              /* sizeof(sumsq_report) */
    double energy_initial;    /* E at the start */
    double energy;            /* E now */
    int64_t iterations;       /* steps taken, rejected ones included */
    int64_t linear_iterations; /* PCG iterations of all steps */
    int32_t termination;      /* sumsq_termination */
    int32_t accepted;         /* of the last step: whether it was taken */
    double gradient_max_norm; /* of the last step: max|g| after it; NaN if there was none, as below */
    double step_norm;         /* of the last step: |s| */
    double radius;            /* of the last step: the radius after it; infinite for Gauss-Newton */
    int64_t device_copies;    /* copies, on the GPU, between memory that was bound and the solver's own */
    int64_t arrays_in_place;  /* arrays that are read where they are bound (in mixed precision an array may be needed twice) */
    int32_t preconditioner;   /* sumsq_preconditioner that ended the last step; SUMSQ_PRECONDITIONER_AUTO if there was none */
    int32_t levels;           /* of multigrid or aggregation, now, in the index space that has most; 0: no index space has any */
    double eta;               /* of the last step: the bound of sqrt(r.z) relative to the start; NaN where PCG goes by something else */
    double setup_seconds;     /* damping and the set-up of preconditioners, in all steps */
    int64_t level_bytes;      /* stored of all levels */
    double operator_complexity; /* entries of J^T J on all levels over those on the first, in the index space with most; 0 without levels */
} sumsq_report;

/* Called after each step; anything but 0 ends the solve. It must return (no longjmp, no exception), and may not use the problem. */
typedef int (*sumsq_callback)(const sumsq_report *report, void *user);

/* The message of this thread's last error; "" if there was none. Valid until the thread's next error. */
const char *sumsq_last_error(void);

/* "0.1.0" */
const char *sumsq_version(void);

/* The name of a termination, as in "function_tolerance"; "unknown" if it is none. */
const char *sumsq_termination_name(int32_t termination);

/* Fills in the defaults; options->size must be set. */
sumsq_status sumsq_options_init(sumsq_options *options);

/* Reads and compiles an energy. `name` stands for the file in messages. On an error *solver is NULL. */
sumsq_status sumsq_solver_from_file(const char *path, const sumsq_options *options, sumsq_solver **solver);
sumsq_status sumsq_solver_from_text(const char *name, const char *text, const sumsq_options *options, sumsq_solver **solver);
void sumsq_solver_free(sumsq_solver *solver);

/* A problem of an energy, without numbers. On an error *problem is NULL. */
sumsq_status sumsq_problem_new(const sumsq_solver *solver, sumsq_problem **problem);
void sumsq_problem_free(sumsq_problem *problem);

/* The extent of a dim; each must be set before what lives over it. Another extent than before forgets all numbers and ends the
 * solve in progress. */
sumsq_status sumsq_set_dim(sumsq_problem *problem, const char *name, int64_t extent);

/* Copies an unknown, array, param, or index array ("G.v0": one index per edge and dim of its index space, first dim innermost).
 * Numbers are packed, channels innermost, then the first dim. `bytes` must be what the extents say; for an index array it says
 * how many edges there are. Between two steps of a solve everything but dims may be set again; the next step sees it. (Set
 * unknowns, index arrays or excluded elements start the method anew from the current unknowns; step count and radius go on.)
 * Values are checked when all names are there, by sumsq_start, sumsq_step or sumsq_solve. */
sumsq_status sumsq_set(sumsq_problem *problem, const char *name, sumsq_type type, const void *data, size_t bytes);

/* An array in the memory of a CUDA device, allocated there or managed, in the device's primary context (that of the CUDA runtime). */
typedef struct sumsq_device_array {
    size_t size;            /* sizeof(sumsq_device_array) */
    void *data;             /* its first element, on the device; aligned to the size of a number */
    int32_t type;           /* sumsq_type; SUMSQ_BOOL is bytes that are 0 or 1 */
    int32_t device;         /* number of the device: that of the solver */
    int32_t dims;           /* length of shape and strides, at most 64 */
    const int64_t *shape;   /* extents, slowest first, as in {H, W, channels}; the channels may be left out where there is one */
    const int64_t *strides; /* distance of neighbours in elements, likewise; null: C order */
    void *stream;           /* a CUstream or cudaStream_t that orders what the caller does with the memory; null: the default stream */
} sumsq_device_array;

/* Binds an unknown or an array to memory of the solver's GPU (SUMSQ_BACKEND_CUDA), in place of sumsq_set. Nothing goes through the host, but for
 * unknowns with bounds.
 *
 * Arrays are read where they lie, without a copy, if the numbers lie as the solver's own would: of the type that it computes in (float32 for
 * SUMSQ_F32, float64 for SUMSQ_F64; in SUMSQ_MIXED energy and gradient read float64, the linear solver float32, and either copy may be the caller's);
 * neighbours in the first dim next to each other (stride 1) and, where there are several channels, each a plane; planes and rows beginning at
 * multiples of 64 bytes and 16 elements; and what the energy reads beyond their edges inside of the same allocation. Any others are copied on the
 * device, by one kernel, when the next call starts or steps. Unknowns are copied there in and, after every step, out, so that a step that fails
 * leaves them as they were last handed out. sumsq_report counts both.
 *
 * Contents are not checked, and read by the next sumsq_start, sumsq_step or sumsq_solve: bind again after changing them. The memory must live until
 * such a call behind the one that has bound or set something else, sumsq_set_dim with another extent, or sumsq_problem_free; arrays must not be written
 * to between a start and the end of the solve. All is ordered with the stream: the solver waits for what was asked of it before a call, and what is asked
 * of it after a call waits for the solver, so that the host need not. */
sumsq_status sumsq_bind(sumsq_problem *problem, const char *name, const sumsq_device_array *array);

/* Tensors by DLPack, version 1 or the one before: what array libraries exchange. Their own header declares the structs. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Sets anything from a tensor of the host, as sumsq_set does, or binds an unknown or an array to one of the solver's GPU, as sumsq_bind does with
 * the stream (of a tensor of the host, null). Strides and offsets are heeded. After success the tensor is sumsq's: its deleter is called at once if it
 * is of the host, else when its memory may go, by the thread whose call lets go of it. After an error it is the caller's as before. */
sumsq_status sumsq_bind_dlpack(sumsq_problem *problem, const char *name, struct DLManagedTensor *tensor, void *stream);
sumsq_status sumsq_bind_dlpack_versioned(sumsq_problem *problem, const char *name, struct DLManagedTensorVersioned *tensor, void *stream);

/* Copies an unknown out as a tensor in C order, of float32 for SUMSQ_F32, else of float64: on the host, or on the GPU of the solver, where it takes a
 * solve that was started, and what the stream is asked for next comes behind the copy. The tensor is the caller's, who calls its deleter, once, at any
 * time: also behind sumsq_problem_free. On an error *tensor is NULL. */
sumsq_status sumsq_export_dlpack(const sumsq_problem *problem, const char *name, void *stream, struct DLManagedTensor **tensor);
sumsq_status sumsq_export_dlpack_versioned(const sumsq_problem *problem, const char *name, void *stream,
                                           struct DLManagedTensorVersioned **tensor);

/* Copies an unknown out, as SUMSQ_FLOAT32 or SUMSQ_FLOAT64. */
sumsq_status sumsq_get(const sumsq_problem *problem, const char *name, sumsq_type type, void *data, size_t bytes);

/* Minimises E from the unknowns as they are. Null options: those of the solver. The callback may be null. A solve that ends
 * without a minimum is no error: see the report. */
sumsq_status sumsq_solve(sumsq_problem *problem, const sumsq_options *options, sumsq_callback callback, void *user);

/* The same, step by step: *termination becomes SUMSQ_RUNNING or why the solve ended; after the end a step does nothing unless
 * numbers were set. If the numbers that were set do not fit, nothing has happened and they can be set again; any other error ends
 * the solve, and the unknowns are those of the last good step. */
sumsq_status sumsq_start(sumsq_problem *problem, const sumsq_options *options);
sumsq_status sumsq_step(sumsq_problem *problem, int32_t *termination);

/* Ends the solve in progress, from any thread, a callback, or a signal handler: within one PCG iteration it ends as SUMSQ_INTERRUPTED, with
 * the unknowns of the last good step. Without a solve in progress it has no effect. The problem must not be freed meanwhile. */
void sumsq_cancel(sumsq_problem *problem);

/* How the solve stands. */
sumsq_status sumsq_get_report(const sumsq_problem *problem, sumsq_report *report);

#ifdef __cplusplus
}
#endif

#endif
