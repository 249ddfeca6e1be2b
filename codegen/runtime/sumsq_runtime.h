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

/* How elements lie (sumsq_buffer.record), if neither in planes (0) nor in records of so many slots (> 0): anywhere. */
#define SUMSQ_STRIDED (-1)

/* Memory of an input or output. Coordinates c lie in [min[d] - halo[d], min[d] + extent[d] + halo[d]); channel k is at
 *   origin + ((c[0] - min[0]) * stride[0] + (c[1] - min[1]) * stride[1] + ... + k * channel_stride) * (bytes of an element).
 * Of strided buffers no more is needed, only they may have other minima than 0, and they have no halo. Of others generated code
 * relies on more: the origin is a multiple of 64 bytes, the strides of dimensions 1 and up are multiples of 16 elements, and 64
 * elements before and behind what may be addressed can be read. sumsq_new makes such memory; whoever fills in a sumsq_buffer for
 * memory of their own guarantees it. Where a strided buffer is asked for, one in planes does too. */
typedef struct {
    void *origin;
    sumsq_type type;
    int32_t channels;
    /* 0: a plane per channel, stride[0] = 1. Above: channels are innermost, in records of so many slots. Or SUMSQ_STRIDED. */
    int32_t record;
    int32_t dims;
    int32_t min[SUMSQ_MAX_DIMS];
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
/* A strided buffer of one channel over the caller's memory: `origin` is the element at the first coordinates, strides count
 * elements and may be negative. `min` may be null (zeros), and so may `stride` (dense, dimension 0 the fastest). The origin of the
 * result is null if the description makes no sense. */
sumsq_buffer sumsq_view(sumsq_type type, void *origin, int32_t dims, const int32_t *min, const int32_t *extent,
                        const int64_t *stride);
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
typedef enum { SUMSQ_PLANE, SUMSQ_MIN, SUMSQ_EXTENT, SUMSQ_STRIDE, SUMSQ_PARAM } sumsq_kind;
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

/* Do the buffers fit the slots? If not, leaves a message and returns other than 0. What is written must share no element with
 * another buffer, unless it is in place of that; of this only equal origins are noticed. */
int sumsq_check(const sumsq_pipeline *p, const sumsq_buffer *const *buffers);
/* Calls the entry point with buffers that sumsq_check has found to fit. */
int sumsq_call(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, const uint64_t *params);
/* Both say whether a promise about a buffer is kept, and leave a message if it is not. `ok` is 0 if the numbers that it is about
 * did not fit in an int64_t. */
/* Is the minimum, extent or stride of dimension d that value, which is written as `text`? */
int sumsq_fixed(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, int32_t slot, sumsq_kind kind, int32_t d,
                int64_t value, const int *ok, const char *text);
/* Are all (integer) values of the domain in [low, high]? */
int sumsq_in_range(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, int32_t slot, int64_t low, int64_t high,
                   const int *ok);

/* A value in the low bytes of a 64-bit slot. */
#define SUMSQ_AS_SLOT(suffix, type) \
    static inline uint64_t sumsq_slot_##suffix(type v) { uint64_t s = 0; memcpy(&s, &v, sizeof v); return s; }
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
static inline uint64_t sumsq_slot_bool(uint8_t v) { return v != 0; }

/* Integer arithmetic of the engine, for promises. What does not fit clears `ok`; x / 0 = x mod 0 = 0, as is INT64_MIN / -1. */
static inline int64_t sumsq_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t sumsq_max(int64_t a, int64_t b) { return a > b ? a : b; }
#define SUMSQ_EXACT(name) \
    static inline int64_t sumsq_##name(int *ok, int64_t a, int64_t b) { \
        int64_t r; \
        if (__builtin_##name##_overflow(a, b, &r)) *ok = 0; \
        return r; \
    }
SUMSQ_EXACT(add)
SUMSQ_EXACT(sub)
SUMSQ_EXACT(mul)
#undef SUMSQ_EXACT
static inline int64_t sumsq_mod(int64_t a, int64_t b) {
    int64_t r = b == 0 || b == -1 ? 0 : a % b;
    return r < 0 ? (b < 0 ? r - b : r + b) : r;
}
static inline int64_t sumsq_div(int64_t a, int64_t b) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) return 0;
    int64_t q = a / b;
    return a % b < 0 ? (b > 0 ? q - 1 : q + 1) : q;
}

#ifdef __cplusplus
}
#endif
#endif
