/* The outputs of `flow_warp` and J^T w, of raw floats in files called as the arrays. */
#include "flow_warp_backward.h"
#include "flow_warp_forward.h"
#include <stdio.h>
#include <stdlib.h>

enum { W = 18, H = 9, C = 5, N = 2 };

/* A dense tensor, read from a file if there is one. */
static sumsq_buffer tensor(const char *name, int32_t channels) {
    const int32_t extent[] = {W, H, channels, N};
    const size_t count = (size_t)W * H * channels * N;
    float *values = calloc(count, sizeof(float));
    FILE *file = fopen(name, "rb");
    if (!values || (file && fread(values, sizeof(float), count, file) != count)) exit(2);
    if (file) fclose(file);
    return sumsq_view(SUMSQ_F32, values, 4, NULL, extent, NULL);
}

static void write(const char *name, const sumsq_buffer *b) {
    const size_t count = (size_t)W * H * b->extent[2] * N;
    FILE *file = fopen(name, "wb");
    if (!file || fwrite(b->origin, sizeof(float), count, file) != count || fclose(file)) exit(3);
    free(b->origin);
}

int main(void) {
    sumsq_buffer input = tensor("input", C), flow = tensor("flow", 2), w = tensor("w.output", C);
    sumsq_buffer output = tensor("", C), d_input = tensor("", C), d_flow = tensor("", 2);
    sumsq_set_threads(2);
    if (flow_warp_forward(&input, &flow, &output) ||
        flow_warp_backward(&input, &flow, &w, &d_input, &d_flow)) {
        fprintf(stderr, "%s\n", sumsq_message());
        return 1;
    }
    write("output", &output);
    write("d.input", &d_input);
    write("d.flow", &d_flow);
    free(input.origin);
    free(flow.origin);
    free(w.origin);
    return 0;
}
