#include "colours.h"
#include "kinds.h"
#include <stdio.h>

enum { WIDTH = 33, HEIGHT = 9, PITCH = 3 * WIDTH + 5 };

static uint8_t pixels[HEIGHT * PITCH];
static uint8_t most[20 * 12];
static float grey[20 * 12];
static int64_t sum[20 * 12];

/* Interleaved colours, the picture upside down; its coordinates start at (-4, 7). */
static sumsq_buffer picture(void) {
    static const int32_t min[] = { -4, 7, 0 }, extent[] = { WIDTH, HEIGHT, 3 };
    static const int64_t stride[] = { 3, -PITCH, 1 };
    return sumsq_view(SUMSQ_U8, pixels + (HEIGHT - 1) * PITCH, 3, min, extent, stride);
}

/* Part of the domain, every row 20 elements apart. */
static sumsq_buffer part(sumsq_type type, void *memory) {
    static const int32_t min[] = { -3, 8 }, extent[] = { 17, 6 };
    static const int64_t stride[] = { 1, 20 };
    return sumsq_view(type, memory, 2, min, extent, stride);
}

static void run_colours(int threads) {
    sumsq_buffer rgb = picture(), a = part(SUMSQ_U8, most), b = part(SUMSQ_F32, grey), c = part(SUMSQ_I64, sum);
    for (int i = 0; i < HEIGHT * PITCH; i++) pixels[i] = (uint8_t)(i * 37 % 251);
    sumsq_set_threads(threads);
    if (colours(&rgb, &a, &b, &c, WIDTH, 0.75f)) printf("colours failed: %s\n", sumsq_message());
    for (int32_t y = 8; y < 14; y++)
        for (int32_t x = -3; x < 14; x++) {
            int32_t at[] = { x, y };
            uint32_t bits;
            memcpy(&bits, sumsq_at(&b, at, 0), sizeof bits);
            printf("%d %08x %lld\n", *(uint8_t *)sumsq_at(&a, at, 0), (unsigned)bits,
                   (long long)*(int64_t *)sumsq_at(&c, at, 0));
        }
    /* Nothing beside the domain was written. */
    printf("%d %g %lld\n", most[17], (double)grey[18], (long long)sum[19]);
}

static void refused(sumsq_buffer rgb, sumsq_buffer a, sumsq_buffer b, int32_t width) {
    sumsq_buffer c = part(SUMSQ_I64, sum);
    c.min[1] = a.min[1];
    printf("%s\n", colours(&rgb, &a, &b, &c, width, 0.75f) ? sumsq_message() : "not refused");
}

static void run_errors(void) {
    sumsq_buffer rgb = picture(), a = part(SUMSQ_U8, most), b = part(SUMSQ_F32, grey), other;
    other = rgb, other.type = SUMSQ_I8, refused(other, a, b, WIDTH);
    other = rgb, other.dims = 2, refused(other, a, b, WIDTH);
    other = rgb, other.record = 4, refused(other, a, b, WIDTH);
    refused(rgb, a, b, WIDTH + 1);
    other = rgb, other.stride[0] = 4, refused(other, a, b, WIDTH);
    other = rgb, other.extent[2] = 4, refused(other, a, b, WIDTH);
    other = rgb, other.min[2] = 1, refused(other, a, b, WIDTH);
    other = rgb, other.extent[1] = -1, refused(other, a, b, WIDTH);
    other = b, other.extent[1] = 5, refused(rgb, a, other, WIDTH);
    other = b, other.stride[1] = 24, refused(rgb, a, other, WIDTH);
    other = b, other.min[0] = -2, refused(rgb, a, other, WIDTH);
    other = a, other.stride[1] = 16, refused(rgb, other, b, WIDTH);
    other = a, other.min[1] = b.min[1] = 12, refused(rgb, other, b, WIDTH);
    b = part(SUMSQ_F32, grey), b.origin = NULL, refused(rgb, a, b, WIDTH);
}

static void run_kinds(void) {
    int32_t min = 5, one = 1;
    uint64_t values[12] = { 0 };
    sumsq_buffer b[12];
    for (int i = 0; i < 12; i++) b[i] = sumsq_view((sumsq_type)i, &values[i], 1, &min, &one, NULL);
    if (kinds(&b[0], &b[1], &b[2], &b[3], &b[4], &b[5], &b[6], &b[7], &b[8], &b[9], &b[10], &b[11], 2, -128, -32768,
              INT32_MIN, INT64_MIN, 255, 65535, UINT32_MAX, UINT64_MAX, 0x3e00, 0.1f, 0.1))
        printf("kinds failed: %s\n", sumsq_message());
    for (int i = 0; i < 12; i++) printf("%llx\n", (unsigned long long)values[i]);
}

int main(void) {
    run_colours(1);
    run_colours(3);
    run_errors();
    run_kinds();
    return 0;
}
