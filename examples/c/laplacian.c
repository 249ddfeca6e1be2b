/* Smooths a noisy disc with the published Opt interface.
 *
 *     cc -I capi/include examples/c/laplacian.c -L target/release -lsumsq_capi -lm -o laplacian
 *     LD_LIBRARY_PATH=target/release ./laplacian examples/energies/laplacian.t
 */
#include <Opt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { W = 64, H = 48 };

int main(int argc, char **argv) {
    const char *energy = argc > 1 ? argv[1] : "examples/energies/laplacian.t";
    static float X[H][W], A[H][W];
    for (int y = 0; y < H; y++) {
        for (int x = 0; x < W; x++) {
            int noise = (x * 7 + y * 13) % 11 - 5;
            int inside = (x - 32) * (x - 32) + (y - 24) * (y - 24) < 15 * 15;
            A[y][x] = (float)inside + 0.0625f * (float)noise;
            X[y][x] = 0;
        }
    }

    Opt_InitializationParameters parameters = {.doublePrecision = 0, .verbosityLevel = 1};
    Opt_State *state = Opt_NewState(parameters);
    Opt_Problem *problem = Opt_ProblemDefine(state, energy, "gaussNewtonGPU");
    unsigned int dims[] = {W, H};
    Opt_Plan *plan = Opt_ProblemPlan(state, problem, dims);
    if (!plan)
        return EXIT_FAILURE;

    int steps = 3, linear = 100;
    Opt_SetSolverParameter(state, plan, "nIterations", &steps);
    Opt_SetSolverParameter(state, plan, "lIterations", &linear);

    /* Positions in the energy file: X is 0, A is 1. */
    void *params[] = {X, A};
    Opt_ProblemInit(state, plan, params);
    printf("start %.9g\n", Opt_ProblemCurrentCost(state, plan));
    while (Opt_ProblemStep(state, plan, params))
        printf("step %.9g\n", Opt_ProblemCurrentCost(state, plan));
    printf("cost %.9g\n", Opt_ProblemCurrentCost(state, plan));
    printf("centre %.9g corner %.9g\n", X[H / 2][W / 2], X[0][0]);

    Opt_PlanFree(state, plan);
    Opt_ProblemDelete(state, problem);
    return EXIT_SUCCESS;
}
