/* Solves with the floating-point environment as it is, or, given an argument, in one that flushes subnormals and rounds to 0; prints the bits
 * of what comes, and whether the environment is as it was. */
#include <stdio.h>
#include <stdlib.h>
#include <sumsq.h>
#include <xmmintrin.h>

enum { N = 500, FLUSH = 0x8000, DENORMALS_ARE_ZERO = 0x0040, ROUND_TO_ZERO = 0x6000 };

static const char *const energy = "local N = Dim('N', 0)\n"
                                  "local X = Unknown('X', opt_float, {N}, 0)\n"
                                  "local T = Unknown('T', opt_float, {}, 1)\n"
                                  "local S = Param('S', double, 2)\n"
                                  "Energy(exp(X(0)) * T() - 1.3 - Index(0), S * X(0) * 1e-150, 0.3 * sin(X(0) - X(1)) + T())\n"
                                  "Energy(1e-160 * 1e-150 * 1e300 * X(0))\n";

static void check(sumsq_status status) {
    if (status != SUMSQ_OK) {
        fprintf(stderr, "%s\n", sumsq_last_error());
        exit(EXIT_FAILURE);
    }
}

static int print_step(const sumsq_report *report, void *user) {
    (void)user;
    printf("step %a\n", report->energy);
    return 0;
}

int main(int argc, char **argv) {
    static double x[N];
    double t = 0.7, s = 1e-160;
    for (int i = 0; i < N; i++) x[i] = (100 + i) / 1024.0;
    (void)argv;
    if (argc > 1) _mm_setcsr(_mm_getcsr() | FLUSH | DENORMALS_ARE_ZERO | ROUND_TO_ZERO);
    /* The flags of what has happened are the library's to leave as they fall. */
    const unsigned flags = 0x3f, before = _mm_getcsr() & ~flags;

    sumsq_solver *solver;
    sumsq_problem *problem;
    check(sumsq_solver_from_text("flush.t", energy, NULL, &solver));
    check(sumsq_problem_new(solver, &problem));
    check(sumsq_set_dim(problem, "N", N));
    check(sumsq_set(problem, "X", SUMSQ_FLOAT64, x, sizeof x));
    check(sumsq_set(problem, "T", SUMSQ_FLOAT64, &t, sizeof t));
    check(sumsq_set(problem, "S", SUMSQ_FLOAT64, &s, sizeof s));
    check(sumsq_solve(problem, NULL, print_step, NULL));
    check(sumsq_get(problem, "X", SUMSQ_FLOAT64, x, sizeof x));
    const unsigned after = _mm_getcsr() & ~flags;
    sumsq_problem_free(problem);
    sumsq_solver_free(solver);
    for (int i = 0; i < N; i++) printf("%a\n", x[i]);
    fprintf(stderr, "%s\n", before == after ? "kept" : "changed");
    return EXIT_SUCCESS;
}
