/* See sumsq_runtime.h. Generated code calls sumsq_fail, sumsq_parallel_for, sumsq_alloc, sumsq_free and the maths below. */

#define _POSIX_C_SOURCE 200809L
#include "sumsq_runtime.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Errors. */

#define OUT_OF_MEMORY INT32_MAX
#define MAX_ARGS 8

/* State of a call. Generated code reads `failed`, its first field. */
typedef struct {
    int32_t failed;
    int32_t code;
    int32_t n_args;
    int64_t args[MAX_ARGS];
    pthread_mutex_t lock;
} context;

static _Thread_local char message[512];

const char *sumsq_message(void) { return message; }

/* Leaves "pipeline: name: why". */
__attribute__((format(printf, 3, 4)))
static int refuse(const sumsq_pipeline *p, const char *name, const char *why, ...) {
    va_list args;
    size_t at = (size_t)snprintf(message, sizeof message, "%s: %s: ", p->name, name);
    va_start(args, why);
    if (at < sizeof message) vsnprintf(message + at, sizeof message - at, why, args);
    va_end(args);
    return -1;
}

/* Does failure (code, args) come before the one that is kept? Of the iterations of a parallel loop all run: what is reported
 * does not depend on their order. */
static int comes_first(const context *c, int32_t code, const int64_t *args, int32_t n) {
    if (!c->failed || code != c->code) return !c->failed || code < c->code;
    for (int32_t i = 0; i < n && i < c->n_args; i++)
        if (args[i] != c->args[i]) return args[i] < c->args[i];
    return n < c->n_args;
}

void sumsq_fail(const void *state, int32_t code, const int64_t *args, int32_t n) {
    context *c = (context *)state;
    if (n > MAX_ARGS) n = MAX_ARGS;
    pthread_mutex_lock(&c->lock);
    if (comes_first(c, code, args, n)) {
        c->code = code;
        c->n_args = n;
        memcpy(c->args, args, (size_t)n * sizeof *args);
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&c->lock);
}

static void describe(const sumsq_pipeline *p, const context *c) {
    const char *text = "an assertion failed";
    if (c->code == OUT_OF_MEMORY)
        text = "out of memory: bytes that cannot be allocated";
    else if (c->code >= 1 && c->code <= p->n_messages)
        text = p->messages[c->code - 1];
    size_t at = (size_t)snprintf(message, sizeof message, "%s: %s", p->name, text);
    for (int32_t i = 0; i < c->n_args && at < sizeof message; i++)
        at += (size_t)snprintf(message + at, sizeof message - at, "%s%" PRId64, i ? ", " : ": ", c->args[i]);
}

/* ---- Memory. */

#define ALIGN 64
/* Bytes around an allocation that vectors may touch. */
#define SLACK 128

void *sumsq_alloc(const void *state, int64_t bytes) {
    void *base = NULL;
    size_t n = bytes > 0 ? (size_t)bytes : 0;
    if (n > SIZE_MAX - 2 * SLACK || posix_memalign(&base, ALIGN, n + 2 * SLACK)) {
        sumsq_fail(state, OUT_OF_MEMORY, &bytes, 1);
        return NULL;
    }
    return (char *)base + SLACK;
}

void sumsq_free(void *p) { free((char *)p - SLACK); }

/* ---- Threads: iterations [n k / t, n (k + 1) / t) run on thread k of t; 0 is the caller. */

typedef void (*body_fn)(const void *context, const void *closure, int32_t i);

#define MAX_THREADS 256

static struct {
    /* Held by the thread whose loop runs. */
    pthread_mutex_t turn;
    pthread_mutex_t lock;
    pthread_cond_t posted, finished;
    int32_t threads, workers, running;
    /* Counts loops; a worker runs its share of each once. */
    uint64_t loop;
    body_fn body;
    const void *context, *closure;
    int32_t min, extent, parts;
} pool = { .turn = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER,
           .posted = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER };

/* Is this thread in an iteration of a parallel loop? Loops inside run on it alone. */
static _Thread_local int inside;

static void run_share(body_fn body, const void *context, const void *closure, int32_t min, int32_t from, int32_t to) {
    int outer = inside;
    inside = 1;
    for (int32_t i = from; i < to; i++) body(context, closure, min + i);
    inside = outer;
}

static int32_t bound(int32_t extent, int32_t k, int32_t parts) { return (int32_t)((int64_t)extent * k / parts); }

static void *work(void *number) {
    int32_t k = (int32_t)(intptr_t)number;
    uint64_t seen = 0;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.loop == seen) pthread_cond_wait(&pool.posted, &pool.lock);
        seen = pool.loop;
        if (k >= pool.parts) continue;
        body_fn body = pool.body;
        const void *context = pool.context, *closure = pool.closure;
        int32_t min = pool.min, from = bound(pool.extent, k, pool.parts), to = bound(pool.extent, k + 1, pool.parts);
        pthread_mutex_unlock(&pool.lock);
        run_share(body, context, closure, min, from, to);
        pthread_mutex_lock(&pool.lock);
        if (--pool.running == 0) pthread_cond_signal(&pool.finished);
    }
    return NULL;
}

void sumsq_set_threads(int32_t n) {
    pthread_mutex_lock(&pool.turn);
    pool.threads = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : n;
    pthread_mutex_unlock(&pool.turn);
}

/* The caller holds the turn and the lock. Workers stay for good; if one does not start, there are fewer. */
static void start_workers(void) {
    if (pool.threads == 0) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        pool.threads = n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
    }
    while (pool.workers < pool.threads - 1) {
        pthread_t t;
        if (pthread_create(&t, NULL, work, (void *)(intptr_t)(pool.workers + 1))) {
            pool.threads = pool.workers + 1;
            break;
        }
        pthread_detach(t);
        pool.workers++;
    }
}

void sumsq_parallel_for(const void *context, body_fn body, const void *closure, int32_t min, int32_t extent) {
    if (inside || extent <= 1) {
        run_share(body, context, closure, min, 0, extent);
        return;
    }
    pthread_mutex_lock(&pool.turn);
    pthread_mutex_lock(&pool.lock);
    start_workers();
    int32_t parts = pool.threads < extent ? pool.threads : extent;
    pool.body = body;
    pool.context = context;
    pool.closure = closure;
    pool.min = min;
    pool.extent = extent;
    pool.parts = parts;
    pool.running = parts - 1;
    pool.loop++;
    if (parts > 1) pthread_cond_broadcast(&pool.posted);
    pthread_mutex_unlock(&pool.lock);
    run_share(body, context, closure, min, 0, bound(extent, 1, parts));
    pthread_mutex_lock(&pool.lock);
    while (pool.running > 0) pthread_cond_wait(&pool.finished, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_unlock(&pool.turn);
}

/* ---- Buffers. */

static int64_t bytes_of(sumsq_type t) {
    static const int64_t bytes[] = { 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 4, 8 };
    return (unsigned)t < sizeof bytes / sizeof *bytes ? bytes[t] : 0;
}

/* `n` rounded up to multiples of `unit`; negative if that is too much. */
static int64_t round_up(int64_t n, int64_t unit) {
    return n < 0 || n > INT64_MAX - unit ? -1 : (n + unit - 1) / unit * unit;
}

static int64_t times(int64_t a, int64_t b) {
    int64_t r;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? -1 : r;
}

sumsq_buffer sumsq_new_records(sumsq_type type, int32_t channels, int32_t record, int32_t dims,
                               const int32_t *extent, const int32_t *halo) {
    sumsq_buffer b = { .type = type, .channels = channels, .record = record, .dims = dims };
    const int64_t size = bytes_of(type), slack = 64, page = 4096;
    if (!size || channels < 1 || record < 0 || (record && record < channels) || dims < 0 || dims > SUMSQ_MAX_DIMS)
        return b;
    int64_t unit = 16 > ALIGN / size ? 16 : ALIGN / size, step = record ? record : 1, before = 0;
    for (int32_t d = 0; d < dims; d++) {
        int64_t e = b.extent[d] = extent[d], h = b.halo[d] = halo ? halo[d] : 0;
        if (e < 0 || h < 0 || step < 0) return b;
        int64_t lead = d ? h : round_up(h, unit);
        b.stride[d] = step;
        int64_t skipped = times(lead, step);
        if (skipped < 0 || before > INT64_MAX / 2 - skipped) return b;
        before += skipped;
        step = round_up(times(step, lead + e + h), unit);
        /* Rows at multiples of a page would compete for the same cache lines. */
        if (d == 0 && step > 0 && step * size % page == 0) step += unit;
    }
    int64_t planes = record ? 1 : channels, plane = round_up(step < 0 ? -1 : step + slack, unit);
    int64_t elements = times(plane, planes);
    if (plane < 0 || elements < 0 || elements > INT64_MAX / size - 2 * slack - ALIGN) return b;
    b.channel_stride = record ? 1 : plane;
    size_t bytes = (size_t)((elements + 2 * slack) * size);
    if (posix_memalign(&b.memory, ALIGN, bytes)) {
        b.memory = NULL;
        return b;
    }
    memset(b.memory, 0, bytes);
    b.origin = (char *)b.memory + (slack + before) * size;
    return b;
}

sumsq_buffer sumsq_new(sumsq_type type, int32_t channels, int32_t dims, const int32_t *extent, const int32_t *halo) {
    return sumsq_new_records(type, channels, 0, dims, extent, halo);
}

sumsq_buffer sumsq_view(sumsq_type type, void *origin, int32_t dims, const int32_t *min, const int32_t *extent,
                        const int64_t *stride) {
    sumsq_buffer b = { .type = type, .channels = 1, .record = SUMSQ_STRIDED, .dims = dims };
    if (!bytes_of(type) || dims < 0 || dims > SUMSQ_MAX_DIMS) return b;
    int64_t dense = 1;
    for (int32_t d = 0; d < dims; d++) {
        b.min[d] = min ? min[d] : 0;
        b.extent[d] = extent[d];
        b.stride[d] = stride ? stride[d] : dense;
        dense = times(dense, extent[d]);
        if (extent[d] < 0 || (int64_t)b.min[d] + extent[d] > INT32_MAX || dense < 0) return b;
    }
    b.origin = origin;
    return b;
}

void sumsq_delete(sumsq_buffer *b) {
    free(b->memory);
    b->memory = b->origin = NULL;
}

void *sumsq_at(const sumsq_buffer *b, const int32_t *at, int32_t channel) {
    int64_t offset = channel * b->channel_stride;
    if (!b->origin || channel < 0 || channel >= b->channels) return NULL;
    for (int32_t d = 0; d < b->dims; d++) {
        int64_t c = (int64_t)at[d] - b->min[d];
        if (c < -(int64_t)b->halo[d] || c >= (int64_t)b->extent[d] + b->halo[d]) return NULL;
        offset += c * b->stride[d];
    }
    return (char *)b->origin + offset * bytes_of(b->type);
}

/* ---- Calls. */

static const char *type_name(sumsq_type t) {
    static const char *const names[] = { "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64" };
    return (unsigned)t < sizeof names / sizeof *names ? names[t] : "unknown";
}

/* "[1, 2]" */
typedef struct { char text[16 * SUMSQ_MAX_DIMS]; } list;
static list listed(const int32_t *v, int32_t n) {
    list l = { "[" };
    size_t at = 1;
    for (int32_t i = 0; i < n; i++)
        at += (size_t)snprintf(l.text + at, sizeof l.text - at, "%s%" PRId32, i ? ", " : "", v[i]);
    snprintf(l.text + at, sizeof l.text - at, "]");
    return l;
}

/* "Planar", "Record(4)", "Strided" */
static list layout(int32_t record) {
    list l = { "Planar" };
    if (record > 0) snprintf(l.text, sizeof l.text, "Record(%" PRId32 ")", record);
    if (record < 0) snprintf(l.text, sizeof l.text, "Strided");
    return l;
}

static long double step(const sumsq_buffer *b, int32_t d) { return fabsl((long double)b->stride[d]); }

/* Do coordinates of some dimension share elements with others? Dimensions in the order of their strides must each step over all
 * that the ones before reach. */
static int overlaps(const sumsq_buffer *b, int32_t *which) {
    int32_t order[SUMSQ_MAX_DIMS], n = 0;
    for (int32_t d = 0; d < b->dims; d++) {
        int32_t i = n++;
        for (; i > 0 && step(b, order[i - 1]) > step(b, d); i--) order[i] = order[i - 1];
        order[i] = d;
    }
    long double reach = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t d = *which = order[i];
        if (b->extent[d] <= 1) continue;
        if (step(b, d) <= reach) return 1;
        reach += step(b, d) * (b->extent[d] - 1);
    }
    return 0;
}

/* Is the domain one that coordinates can run over? */
static int check_domain(const sumsq_pipeline *p, const sumsq_slot *s, const sumsq_buffer *b) {
    for (int32_t d = 0; d < s->dims; d++) {
        if (b->extent[d] < 0 || b->halo[d] < 0 || (int64_t)b->min[d] + b->extent[d] > INT32_MAX)
            return refuse(p, s->name, "coordinates from %" PRId32 " on, %" PRId32 " of them, are not possible", b->min[d],
                          b->extent[d]);
        if (s->record != SUMSQ_STRIDED && b->min[d])
            return refuse(p, s->name, "expected coordinates from 0 on, got a minimum of %s", listed(b->min, s->dims).text);
        if (b->halo[d] < s->halo[d])
            return refuse(p, s->name, "expected a halo of at least %s, got %s", listed(s->halo, s->dims).text,
                          listed(b->halo, s->dims).text);
    }
    return 0;
}

/* Does memory lie as code for planes and records relies on? */
static int check_memory(const sumsq_pipeline *p, const sumsq_slot *s, const sumsq_buffer *b) {
    if ((uintptr_t)b->origin % ALIGN) return refuse(p, s->name, "the buffer's origin is no multiple of 64 bytes");
    if (!b->record && b->channels > 1 && b->channel_stride * bytes_of(b->type) % ALIGN)
        return refuse(p, s->name, "the distance of the buffer's planes is no multiple of 64 bytes");
    for (int32_t d = 0; d < s->dims; d++) {
        if (d == 0 && b->stride[0] != (b->record ? b->record : 1))
            return refuse(p, s->name, "the buffer's first stride is not dense");
        if (d > 0 && b->stride[d] % 16)
            return refuse(p, s->name, "a stride of the buffer is no multiple of 16 elements");
    }
    return 0;
}

/* Does the buffer fit? In the words of pipelines compiled into a process. */
static int check_slot(const sumsq_pipeline *p, const sumsq_slot *s, const sumsq_buffer *b) {
    int32_t d = 0;
    if (!b || !b->origin) return refuse(p, s->name, "no buffer is bound to it");
    if (b->type != s->type)
        return refuse(p, s->name, "expected elements of type %s, got %s", type_name(s->type), type_name(b->type));
    if (b->dims != s->dims)
        return refuse(p, s->name, "expected %" PRId32 " dimensions, got %" PRId32, s->dims, b->dims);
    if (b->channels != s->channels)
        return refuse(p, s->name, "expected %" PRId32 " channels, got %" PRId32, s->channels, b->channels);
    if (b->record != s->record && !(s->record == SUMSQ_STRIDED && b->record == 0))
        return refuse(p, s->name, "expected layout %s, got %s", layout(s->record).text, layout(b->record).text);
    if (check_domain(p, s, b)) return -1;
    if (s->record != SUMSQ_STRIDED) return check_memory(p, s, b);
    if (s->written && overlaps(b, &d))
        return refuse(p, s->name, "coordinates of dimension %" PRId32 " share elements with others", d);
    return 0;
}

/* What is written is nothing else, but for an output in place of an input. */
static int check_shared(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, int32_t i) {
    const sumsq_slot *s = &p->slots[i];
    for (int32_t j = 0; j < p->n_slots; j++) {
        int allowed = j == i || s->in_place_of == j || (p->slots[j].written && j < i);
        if (!allowed && buffers[i]->origin == buffers[j]->origin)
            return refuse(p, s->name, "shares its buffer with %s, but is not in place of it", p->slots[j].name);
    }
    return 0;
}

int sumsq_check(const sumsq_pipeline *p, const sumsq_buffer *const *buffers) {
    for (int32_t i = 0; i < p->n_slots; i++)
        if (check_slot(p, &p->slots[i], buffers[i])) return -1;
    for (int32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].written && check_shared(p, buffers, i)) return -1;
    return 0;
}

int sumsq_fixed(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, int32_t slot, sumsq_kind kind, int32_t d,
                int64_t value, const int *ok, const char *text) {
    const sumsq_buffer *b = buffers[slot];
    const char *name = p->slots[slot].name;
    const char *what = kind == SUMSQ_MIN ? "minimum" : kind == SUMSQ_EXTENT ? "extent" : "stride";
    int64_t found = kind == SUMSQ_MIN ? b->min[d] : kind == SUMSQ_EXTENT ? b->extent[d] : b->stride[d];
    if (!*ok) return refuse(p, name, "the %s %s cannot be computed before the run", what, text), 0;
    /* Nobody steps along a dimension of one element. */
    if (found == value || (kind == SUMSQ_STRIDE && b->extent[d] <= 1)) return 1;
    refuse(p, name, "the %s of dimension %" PRId32 " must be %" PRId64 ", it is %" PRId64, what, d, value, found);
    return 0;
}

#define MAX_ARGUMENTS 512

int sumsq_call(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, const uint64_t *params) {
    void *pointers[MAX_ARGUMENTS];
    uint64_t scalars[MAX_ARGUMENTS];
    if (p->n_pointers > MAX_ARGUMENTS || p->n_scalars > MAX_ARGUMENTS)
        return refuse(p, "arguments", "there are too many");
    for (int32_t i = 0; i < p->n_pointers + p->n_scalars; i++) {
        sumsq_source s = p->sources[i];
        const sumsq_buffer *b = s.kind == SUMSQ_PARAM ? NULL : buffers[s.first];
        uint64_t *scalar = &scalars[i < p->n_pointers ? 0 : i - p->n_pointers];
        switch (s.kind) {
        case SUMSQ_PLANE:
            pointers[i] = (char *)b->origin + (b->record > 0 ? 0 : s.second * b->channel_stride * bytes_of(b->type));
            break;
        case SUMSQ_MIN: *scalar = (uint32_t)b->min[s.second]; break;
        case SUMSQ_EXTENT: *scalar = (uint32_t)b->extent[s.second]; break;
        case SUMSQ_STRIDE: *scalar = (uint64_t)b->stride[s.second]; break;
        case SUMSQ_PARAM: *scalar = params[s.first]; break;
        }
    }
    context c = { .failed = 0 };
    pthread_mutex_init(&c.lock, NULL);
    int code = p->entry(&c, pointers, scalars);
    if (code) {
        if (!c.failed) c.code = code;
        describe(p, &c);
    }
    pthread_mutex_destroy(&c.lock);
    return code;
}

static int64_t value_at(const sumsq_buffer *b, const void *v) {
    switch (b->type) {
    case SUMSQ_I8: return *(const int8_t *)v;
    case SUMSQ_I16: return *(const int16_t *)v;
    case SUMSQ_I32: return *(const int32_t *)v;
    case SUMSQ_U16: return *(const uint16_t *)v;
    case SUMSQ_U32: return *(const uint32_t *)v;
    case SUMSQ_I64: case SUMSQ_U64: return *(const int64_t *)v;
    default: return *(const uint8_t *)v;
    }
}

int sumsq_in_range(const sumsq_pipeline *p, const sumsq_buffer *const *buffers, int32_t slot, int64_t low, int64_t high,
                   const int *ok) {
    const sumsq_buffer *b = buffers[slot];
    const char *name = p->slots[slot].name;
    int32_t at[SUMSQ_MAX_DIMS] = { 0 };
    if (!*ok) return refuse(p, name, "the bounds of its values cannot be computed before the run"), 0;
    for (int32_t d = 0; d < b->dims; d++) {
        at[d] = b->min[d];
        if (b->extent[d] <= 0) return 1;
    }
    for (;;) {
        for (int32_t k = 0; k < b->channels; k++) {
            int64_t v = value_at(b, sumsq_at(b, at, k));
            if (v >= low && v <= high) continue;
            refuse(p, name, "value %" PRId64 " is not in [%" PRId64 ", %" PRId64 "]", v, low, high);
            return 0;
        }
        int32_t d = 0;
        for (; d < b->dims && ++at[d] == b->min[d] + b->extent[d]; d++) at[d] = b->min[d];
        if (d == b->dims) return 1;
    }
}
