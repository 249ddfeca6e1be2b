/* Another thread ends a solve whose first linear system has no end. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sumsq.h>
#include <time.h>

enum { N = 1 << 19 };

static const char *const energy = "local N = Dim('N', 0)\n"
                                  "local X = Unknown('X', opt_float, {N}, 0)\n"
                                  "local A = Array('A', opt_float, {N}, 1)\n"
                                  "Energy(0.0001 * (X(0) - A(0)), X(0) - X(1))\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int solved = 0;

static void check(sumsq_status status) {
    if (status != SUMSQ_OK) {
        fprintf(stderr, "%s\n", sumsq_last_error());
        exit(EXIT_FAILURE);
    }
}

/* Asks until the solve has ended: a request before its start has no effect. */
static void *cancel(void *problem) {
    for (int over = 0; !over;) {
        const struct timespec pause = {0, 100000000};
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        over = solved;
        pthread_mutex_unlock(&lock);
        if (!over) sumsq_cancel(problem);
    }
    return NULL;
}

int main(void) {
    static float x[N], a[N];
    for (int i = 0; i < N; i++) {
        x[i] = 0.5f;
        a[i] = (float)(i % 7);
    }
    sumsq_options options = {.size = sizeof options};
    check(sumsq_options_init(&options));
    options.linear_tolerance = 1e-300;
    options.linear_iterations = (int64_t)1 << 40;

    sumsq_solver *solver;
    sumsq_problem *problem;
    check(sumsq_solver_from_text("cancel.t", energy, &options, &solver));
    check(sumsq_problem_new(solver, &problem));
    check(sumsq_set_dim(problem, "N", N));
    check(sumsq_set(problem, "X", SUMSQ_FLOAT32, x, sizeof x));
    check(sumsq_set(problem, "A", SUMSQ_FLOAT32, a, sizeof a));

    pthread_t thread;
    if (pthread_create(&thread, NULL, cancel, problem) != 0) return EXIT_FAILURE;
    check(sumsq_solve(problem, NULL, NULL, NULL));
    pthread_mutex_lock(&lock);
    solved = 1;
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);

    sumsq_report report = {.size = sizeof report};
    check(sumsq_get_report(problem, &report));
    check(sumsq_get(problem, "X", SUMSQ_FLOAT32, x, sizeof x));
    int moved = 0;
    for (int i = 0; i < N; i++) moved += x[i] != 0.5f;
    printf("%s\niterations %lld\nmoved %d\n", sumsq_termination_name(report.termination), (long long)report.iterations, moved);
    sumsq_problem_free(problem);
    sumsq_solver_free(solver);
    return EXIT_SUCCESS;
}
