/* Solves a list on a GPU, then on the CPU. `solve [DEVICE]` prints the steps; `fault` makes the device fail behind the first. */
#define _POSIX_C_SOURCE 200112L
#include "sumsq.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *ENERGY = "local N = Dim('N', 0)\n"
                            "local X = Unknown('X', opt_float, {N}, 0)\n"
                            "local A = Array('A', opt_float, {N}, 1)\n"
                            "Energy(X(0) * X(0) - A(0))\n";

static const float START[4] = {3, 3, 3, 3};
static const float SQUARES[4] = {0.25f, 1, 2.25f, 4};

static int made(const sumsq_options *options, sumsq_problem **problem)
{
    sumsq_solver *solver;
    int status = (int)sumsq_solver_from_text("list.t", ENERGY, options, &solver);
    *problem = NULL;
    if (!status) {
        status = (int)sumsq_problem_new(solver, problem);
    }
    sumsq_solver_free(solver);
    if (!status) {
        status = (int)(sumsq_set_dim(*problem, "N", 4) || sumsq_set(*problem, "X", SUMSQ_FLOAT32, START, sizeof START) ||
                       sumsq_set(*problem, "A", SUMSQ_FLOAT32, SQUARES, sizeof SQUARES));
    }
    return status ? status : (int)sumsq_start(*problem, options);
}

/* Makes every launch of the stand-in's fail from now on. */
static void fail(void)
{
    void *library = dlopen("libcuda.so", RTLD_NOW | RTLD_NOLOAD);
    unsigned (*configure)(const char *, const char *);
    if (!library) {
        exit(2);
    }
    *(void **)&configure = dlsym(library, "sumsq_libcuda_configure");
    if (configure("FAIL_CALL", "cuLaunchKernel:700")) {
        exit(3);
    }
}

static int same(const double *a, const double *b)
{
    return memcmp(a, b, 4 * sizeof *a) == 0;
}

static void solve(const sumsq_options *options)
{
    sumsq_problem *problem;
    int32_t end = SUMSQ_RUNNING;
    int status = made(options, &problem), step;
    double x[4];
    printf("status %d\n", status);
    if (status) {
        printf("%s\n", sumsq_last_error());
    }
    for (step = 1; !status && step <= 2; step++) {
        status = (int)sumsq_step(problem, &end);
        printf("step %d\n", step);
    }
    while (!status && end == SUMSQ_RUNNING) {
        status = (int)sumsq_step(problem, &end);
    }
    if (!status && !sumsq_get(problem, "X", SUMSQ_FLOAT64, x, sizeof x)) {
        printf("x %.4g %.4g %.4g %.4g\n", x[0], x[1], x[2], x[3]);
    }
    sumsq_problem_free(problem);
}

static void fault(const sumsq_options *options)
{
    sumsq_problem *problem;
    double good[4], now[4];
    int status = made(options, &problem);
    const char *said;
    printf("status %d\n", status);
    if (status || sumsq_step(problem, NULL) || sumsq_get(problem, "X", SUMSQ_FLOAT64, good, sizeof good)) {
        exit(4);
    }
    printf("step 1\n");
    fail();
    status = (int)sumsq_step(problem, NULL);
    said = sumsq_last_error();
    printf("status %d: %.31s\n", status, said);
    said = strstr(said, "after ");
    printf("%s\n", said ? said : "nothing is said of steps");
    status = (int)sumsq_get(problem, "X", SUMSQ_FLOAT64, now, sizeof now);
    printf("x is %s\n", !status && same(good, now) ? "that of step 1" : "another");
    sumsq_problem_free(problem);
}

int main(int argc, char **argv)
{
    sumsq_options options;
    sumsq_problem *problem;
    int status;
    options.size = sizeof options;
    sumsq_options_init(&options);
    options.backend = SUMSQ_BACKEND_CUDA;
    options.device = argc > 2 ? atoi(argv[2]) : 0;
    options.threads = 1;
    if (argc > 1 && strcmp(argv[1], "fault") == 0) {
        fault(&options);
    } else {
        solve(&options);
    }
    options.backend = SUMSQ_BACKEND_CPU;
    status = made(&options, &problem);
    if (!status) {
        status = (int)sumsq_step(problem, NULL);
    }
    printf("last solve: status %d\n", status);
    sumsq_problem_free(problem);
    return 0;
}
