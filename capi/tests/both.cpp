// Both headers in one program, in either order: errors and versions cross between them, and callbacks are C++ functions.
#ifdef OPT_LAST
#include <sumsq.h>
#include <Opt.h>
#else
#include <Opt.h>
#include <sumsq.h>
#endif
// Again: each guards itself.
#include <Opt.h>
#include <sumsq.h>
#include <cstdio>
#include <cstdlib>

namespace {

void check(sumsq_status status) {
    if (status != SUMSQ_OK) {
        std::fprintf(stderr, "%s\n", sumsq_last_error());
        std::exit(EXIT_FAILURE);
    }
}

int count_step(const sumsq_report *, void *user) {
    ++*static_cast<int *>(user);
    return 0;
}

const char *const energy = "local N = Dim('N', 0)\n"
                           "local X = Unknown('X', double, {N}, 0)\n"
                           "local A = Array('A', double, {N}, 1)\n"
                           "Energy(X(0) - A(0))\n";

} // namespace

int main() {
    // A refusal of the published interface is told by the other one's function.
    Opt_InitializationParameters wrong = Opt_InitializationParameters();
    wrong.threadsPerBlock = 5;
    if (Opt_NewState(wrong) != NULL) return EXIT_FAILURE;
    std::printf("refused: %s\n", sumsq_last_error());

    Opt_InitializationParameters right = Opt_InitializationParameters();
    if (Opt_NewState(right) == NULL) return EXIT_FAILURE;

    sumsq_options options = sumsq_options();
    options.size = sizeof options;
    check(sumsq_options_init(&options));
    options.precision = SUMSQ_F64;

    const double target[3] = {1.0, 2.0, 3.0};
    double x[3] = {0.0, 0.0, 0.0};
    int steps = 0;
    sumsq_solver *solver = NULL;
    sumsq_problem *problem = NULL;
    check(sumsq_solver_from_text("both.t", energy, &options, &solver));
    check(sumsq_problem_new(solver, &problem));
    check(sumsq_set_dim(problem, "N", 3));
    check(sumsq_set(problem, "X", SUMSQ_FLOAT64, x, sizeof x));
    check(sumsq_set(problem, "A", SUMSQ_FLOAT64, target, sizeof target));
    check(sumsq_solve(problem, &options, count_step, &steps));
    check(sumsq_get(problem, "X", SUMSQ_FLOAT64, x, sizeof x));
    sumsq_problem_free(problem);
    sumsq_solver_free(solver);
    std::printf("steps %d\nx %.9g %.9g %.9g\n", steps, x[0], x[1], x[2]);
    return EXIT_SUCCESS;
}
