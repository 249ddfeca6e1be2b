#include "smooth.h"
#include "gather.h"
#include "times.h"
#include <stdio.h>

static void run_smooth(int threads) {
    int32_t size[] = { 37, 21 }, halo[] = { 1, 1 };
    sumsq_buffer image = sumsq_new(SUMSQ_F32, 1, 2, size, halo);
    sumsq_buffer result = sumsq_new(SUMSQ_F32, 2, 2, size, NULL);
    sumsq_buffer total = sumsq_new(SUMSQ_F64, 1, 0, NULL, NULL);
    for (int32_t y = -1; y <= size[1]; y++)
        for (int32_t x = -1; x <= size[0]; x++) {
            int32_t at[] = { x, y };
            *(float *)sumsq_at(&image, at, 0) = (float)((x * 7 + y * 3) % 11) * 0.25f;
        }
    sumsq_set_threads(threads);
    if (smooth(&image, &result, &total, 0.5f)) printf("smooth failed: %s\n", sumsq_message());
    for (int32_t k = 0; k < 2; k++)
        for (int32_t y = 0; y < size[1]; y++)
            for (int32_t x = 0; x < size[0]; x++) {
                int32_t at[] = { x, y };
                uint32_t bits;
                memcpy(&bits, sumsq_at(&result, at, k), sizeof bits);
                printf("%08x\n", (unsigned)bits);
            }
    printf("%.17g\n", *(double *)sumsq_at(&total, NULL, 0));
    if (smooth(&image, &image, &total, 0.5f)) printf("%s\n", sumsq_message());
    if (smooth(&result, &result, &total, 0.5f)) printf("%s\n", sumsq_message());
    sumsq_delete(&image);
    sumsq_delete(&result);
    sumsq_delete(&total);
}

static void run_gather(void) {
    int32_t four = 4, five = 5, three = 3;
    sumsq_buffer ids = sumsq_new(SUMSQ_I32, 1, 1, &four, NULL);
    sumsq_buffer table = sumsq_new(SUMSQ_F32, 1, 1, &three, NULL);
    sumsq_buffer out = sumsq_new(SUMSQ_F32, 1, 1, &four, NULL), more = sumsq_new(SUMSQ_F32, 1, 1, &five, NULL);
    for (int32_t i = 0; i < 3; i++) ((float *)table.origin)[i] = (float)(i * i + 1);
    for (int32_t i = 0; i < 4; i++) ((int32_t *)ids.origin)[i] = (i * 2) % 3;
    if (gather(&ids, &table, &out)) printf("gather failed: %s\n", sumsq_message());
    for (int32_t i = 0; i < 4; i++) printf("%g ", (double)((float *)out.origin)[i]);
    printf("\n");
    if (gather(&ids, &table, &more)) printf("%s\n", sumsq_message());
    ((int32_t *)ids.origin)[2] = 3;
    if (gather(&ids, &table, &out)) printf("%s\n", sumsq_message());
    if (gather(&ids, NULL, &out)) printf("%s\n", sumsq_message());
    sumsq_delete(&ids);
    sumsq_delete(&table);
    sumsq_delete(&out);
    sumsq_delete(&more);
}

static void run_times(void) {
    int32_t three = 3;
    sumsq_buffer out = sumsq_new(SUMSQ_I32, 1, 1, &three, NULL);
    if (times(&out, 9)) printf("times failed: %s\n", sumsq_message());
    printf("%d\n", (int)((int32_t *)out.origin)[2]);
    if (times(&out, 10)) printf("%s\n", sumsq_message());
    if (times(&out, -1)) printf("%s\n", sumsq_message());
    sumsq_delete(&out);
}

int main(void) {
    run_smooth(1);
    run_smooth(3);
    run_gather();
    run_times();
    return 0;
}
