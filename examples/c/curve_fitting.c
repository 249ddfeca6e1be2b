/* Fits y = a cos(b x) + b sin(a x) to points with sumsq's own interface: a graph, a callback, a report.
 *
 *     cc -I capi/include examples/c/curve_fitting.c -L target/release -lsumsq_capi -lm -o curve_fitting
 *     LD_LIBRARY_PATH=target/release ./curve_fitting examples/energies/curveFitting.t
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sumsq.h>

enum { N = 200 };

static void check(sumsq_status status) {
    if (status != SUMSQ_OK) {
        fprintf(stderr, "%s\n", sumsq_last_error());
        exit(EXIT_FAILURE);
    }
}

static int print_step(const sumsq_report *report, void *user) {
    (void)user;
    printf("step %lld energy %.9g\n", (long long)report->iterations, report->energy);
    return 0;
}

int main(int argc, char **argv) {
    static double points[N][2], curve[1][2] = {{1.1, 1.9}};
    static int32_t point[N], parameters[N];
    for (int i = 0; i < N; i++) {
        double x = 0.0625 * i;
        points[i][0] = x;
        points[i][1] = 1.0 * cos(2.0 * x) + 2.0 * sin(1.0 * x);
        point[i] = i;
        parameters[i] = 0;
    }

    sumsq_options options = {.size = sizeof options};
    check(sumsq_options_init(&options));
    options.precision = SUMSQ_F64;

    sumsq_solver *solver;
    check(sumsq_solver_from_file(argc > 1 ? argv[1] : "examples/energies/curveFitting.t", &options, &solver));
    sumsq_problem *problem;
    check(sumsq_problem_new(solver, &problem));
    check(sumsq_set_dim(problem, "N", N));
    check(sumsq_set_dim(problem, "U", 1));
    check(sumsq_set(problem, "data", SUMSQ_FLOAT64, points, sizeof points));
    check(sumsq_set(problem, "funcParams", SUMSQ_FLOAT64, curve, sizeof curve));
    check(sumsq_set(problem, "G.d", SUMSQ_INT32, point, sizeof point));
    check(sumsq_set(problem, "G.p", SUMSQ_INT32, parameters, sizeof parameters));

    check(sumsq_solve(problem, &options, print_step, NULL));

    sumsq_report report = {.size = sizeof report};
    check(sumsq_get_report(problem, &report));
    check(sumsq_get(problem, "funcParams", SUMSQ_FLOAT64, curve, sizeof curve));
    printf("energy %.9g from %.9g\n", report.energy, report.energy_initial);
    printf("iterations %lld %s\n", (long long)report.iterations, sumsq_termination_name(report.termination));
    printf("a %.12g\nb %.12g\n", curve[0][0], curve[0][1]);

    sumsq_problem_free(problem);
    sumsq_solver_free(solver);
    return EXIT_SUCCESS;
}
