/* The runtime of pipelines that sumsq compiled ahead of time: buffers, a thread pool, errors. Needs libc, libm and pthreads.
 *
 * Each pipeline has a header NAME.h, with a function NAME of its buffers and parameters, and an object file NAME.o. Link them
 * with sumsq_runtime.c.
 */
#ifndef SUMSQ_RUNTIME_H
#define SUMSQ_RUNTIME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SUMSQ_MAX_DIMS 8

/* Types of elements. A bool is a byte, 0 or 1; an f16 is its bits in a uint16_t. */
typedef enum {
    SUMSQ_BOOL, SUMSQ_I8, SUMSQ_I16, SUMSQ_I32, SUMSQ_I64, SUMSQ_U8, SUMSQ_U16, SUMSQ_U32, SUMSQ_U64,
    SUMSQ_F16, SUMSQ_F32, SUMSQ_F64
} sumsq_type;

/* Memory of an input or output. Coordinates c lie in [-halo[d], extent[d] + halo[d]); channel k of an element is at
 *   origin + (c[0] * stride[0] + c[1] * stride[1] + ... + k * channel_stride) * (bytes of an element).
 * Generated code relies on more than that: the origin is a multiple of 64 bytes, the strides of dimensions 1 and up are
 * multiples of 16 elements, and 64 elements before and behind what may be addressed can be read. sumsq_new makes such memory;
 * whoever fills in a sumsq_buffer for memory of their own guarantees it. */
typedef struct {
    void *origin;
    sumsq_type type;
    int32_t channels;
    /* 0: a plane per channel, stride[0] = 1. Else channels are innermost, in records of so many slots. */
    int32_t record;
    int32_t dims;
    int32_t extent[SUMSQ_MAX_DIMS];
    int32_t halo[SUMSQ_MAX_DIMS];
    int64_t stride[SUMSQ_MAX_DIMS];
    int64_t channel_stride;
    /* What sumsq_delete frees; null for memory of the caller. */
    void *memory;
} sumsq_buffer;

/* A zeroed buffer with one plane per channel; halo may be null (none). The origin is null if there is no memory for it or the
 * description makes no sense. */
sumsq_buffer sumsq_new(sumsq_type type, int32_t channels, int32_t dims, const int32_t *extent, const int32_t *halo);
/* The same, with records of `record` >= channels slots. */
sumsq_buffer sumsq_new_records(sumsq_type type, int32_t channels, int32_t record, int32_t dims,
                               const int32_t *extent, const int32_t *halo);
/* Frees what sumsq_new allocated. */
void sumsq_delete(sumsq_buffer *b);
/* Address of a value; null outside of domain and halo. */
void *sumsq_at(const sumsq_buffer *b, const int32_t *at, int32_t channel);

/* Threads that parallel loops run on, the caller's included; as many as there are processors at first. Not while a pipeline
 * runs. Results do not depend on it. */
void sumsq_set_threads(int32_t n);
/* Why the last call on this thread returned other than 0. */
const char *sumsq_message(void);

/* ---- What the headers of pipelines use. */

typedef struct {
    const char *name;
    sumsq_type type;
    int32_t channels, record, dims, written;
    /* Slot of the input whose buffer this output may share; -1: none. */
    int32_t in_place_of;
    int32_t halo[SUMSQ_MAX_DIMS];
} sumsq_slot;

/* Where an entry of the argument arrays comes from. */
typedef enum { SUMSQ_PLANE, SUMSQ_EXTENT, SUMSQ_STRIDE, SUMSQ_PARAM } sumsq_kind;
typedef struct {
    sumsq_kind kind;
    /* Slot and plane, slot and dimension, or number of the parameter. */
    int32_t first, second;
} sumsq_source;

typedef struct {
    const char *name;
    int (*entry)(const void *context, void *const *buffers, const uint64_t *scalars);
    const sumsq_slot *slots;
    int32_t n_slots;
    /* Pointers, then scalars. */
    const sumsq_source *sources;
    int32_t n_pointers, n_scalars;
    /* Of assertion k + 1. */
    const char *const *messages;
    int32_t n_messages;
} sumsq_pipeline;

/* Do the buffers fit the slots? If not, leaves a message and returns other than 0. */
int sumsq_check(const sumsq_pipeline *p, const sumsq_buffer *const *buffers);
/* Checks the buffers and calls the entry point. */
int sumsq_call(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, const uint64_t *params);
/* Are all (integer) values of the domain in [low, high]? If not, leaves a message and returns 0. */
int sumsq_in_range(const sumsq_pipeline *p, const char *name, const sumsq_buffer *b, int64_t low, int64_t high);

/* A value in the low bytes of a 64-bit slot. */
#define SUMSQ_AS_SLOT(suffix, type) \
    static inline uint64_t sumsq_slot_##suffix(type v) { uint64_t s = 0; memcpy(&s, &v, sizeof v); return s; }
SUMSQ_AS_SLOT(bool, uint8_t)
SUMSQ_AS_SLOT(i8, int8_t)
SUMSQ_AS_SLOT(i16, int16_t)
SUMSQ_AS_SLOT(i32, int32_t)
SUMSQ_AS_SLOT(i64, int64_t)
SUMSQ_AS_SLOT(u8, uint8_t)
SUMSQ_AS_SLOT(u16, uint16_t)
SUMSQ_AS_SLOT(u32, uint32_t)
SUMSQ_AS_SLOT(u64, uint64_t)
SUMSQ_AS_SLOT(f16, uint16_t)
SUMSQ_AS_SLOT(f32, float)
SUMSQ_AS_SLOT(f64, double)
#undef SUMSQ_AS_SLOT

/* Integer arithmetic of the engine, for the bounds of values. */
static inline int64_t sumsq_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t sumsq_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t sumsq_mod(int64_t a, int64_t b) {
    int64_t r = b ? a % b : 0;
    return r < 0 ? r + (b < 0 ? -b : b) : r;
}
static inline int64_t sumsq_div(int64_t a, int64_t b) { return b ? (a - sumsq_mod(a, b)) / b : 0; }

#ifdef __cplusplus
}
#endif
#endif
