/* The published C interface of Opt, offered by sumsq on the CPU. Link with -lsumsq_capi.
 *
 *     Opt_State *state = Opt_NewState(parameters);
 *     Opt_Problem *problem = Opt_ProblemDefine(state, "energy.t", "LMGPU");
 *     Opt_Plan *plan = Opt_ProblemPlan(state, problem, dims);
 *     Opt_ProblemSolve(state, plan, problemparams);
 *     Opt_PlanFree(state, plan);
 *     Opt_ProblemDelete(state, problem);
 *
 * Numbers. problemparams[i] points to what the energy declares at position i, in host memory:
 *   Unknown, Array  packed numbers of the declared type: channels innermost, then the first dim;
 *   Param           its value, of the declared type;
 *   Graph           the number of edges, an int;
 *   vertex          one int per edge and dim of the index space that it points into, first dim innermost.
 * The declared type is float, double, uint8_t, int (32 bits), bool (one byte) and so on; opt_float is double with
 * doublePrecision, else float. A constant view of an unknown shares its position. Positions run from 0 without a hole, those
 * of the dims too.
 *
 * Pointers and values are read again at init and at every step: whatever changed is taken up, nothing is compiled again.
 * (Changed unknowns, graphs or excluded elements start the method anew from the current unknowns; radius and step count go
 * on.) Unknowns are written back in place after init and after every step.
 *
 * Precision. With doublePrecision everything is computed in double. Without, the unknowns are kept in double and rounded to
 * the declared type when written back; energies and gradients are double, the linear solver is float. Scalars of an unknown
 * that the program does not touch between two calls keep their unrounded value.
 *
 * Errors. A function that fails returns NULL or 0, keeps the message for sumsq_last_error() (sumsq.h), and prints it to stderr
 * unless verbosityLevel is 0. After a failed step the unknowns are those of the last good one.
 *
 * Threads. Use a plan from one thread at a time; it computes on all cores. A state serves any number of problems.
 */
#ifndef OPT_H
#define OPT_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct Opt_State Opt_State;
typedef struct Opt_Problem Opt_Problem;
typedef struct Opt_Plan Opt_Plan;

typedef struct Opt_InitializationParameters {
    int doublePrecision;            /* 0: opt_float is float; else double */
    int verbosityLevel;             /* on stderr; 0: nothing, 1: errors, 2: also warnings and ends of solves, 3: also steps */
    int collectPerKernelTimingInfo; /* no effect on the CPU */
    int threadsPerBlock;            /* 0 or a multiple of 32; no effect on the CPU */
} Opt_InitializationParameters;

/* A state; NULL for parameters out of range. It lives as long as the program. */
Opt_State *Opt_NewState(Opt_InitializationParameters params);

/* Reads and compiles an energy file. solverkind: "gaussNewtonGPU" or "LMGPU" (on the CPU too). */
Opt_Problem *Opt_ProblemDefine(Opt_State *state, const char *filename, const char *solverkind);

/* Plans of the problem stay usable. */
void Opt_ProblemDelete(Opt_State *state, Opt_Problem *problem);

/* dimensions[i] is the extent of the dim at position i. */
Opt_Plan *Opt_ProblemPlan(Opt_State *state, Opt_Problem *problem, unsigned int *dimensions);

void Opt_PlanFree(Opt_State *state, Opt_Plan *plan);

/* Sets a parameter; value points to an int or a float, never a double. nIterations acts at once, the others from the next init.
 *
 *   int    nIterations 10              steps at most
 *   int    lIterations 10              iterations of the linear solver per step: Gauss-Newton takes all of them
 *   float  min_relative_decrease 1e-3  of an accepted step, actual over predicted decrease
 *   float  trust_region_radius 1e4     the first one
 *   float  min_trust_region_radius 1e-32
 *   float  max_trust_region_radius 1e16
 *   float  radius_decrease_factor 2    of the first of several rejections in a row; it doubles with each further one
 *   float  q_tolerance 1e-4            LM's linear solver stops at k (Q_k - Q_{k-1}) <= q_tolerance Q_k, Q its model's decrease
 *   float  function_tolerance 1e-6     LM ends when an accepted step changes the cost by at most this times the cost
 *   float  gradient_tolerance 1e-10    LM ends when |(J^T r)_i| is at most this times |column i of J| |r| for all i
 *   float  step_tolerance 1e-8         LM ends when a step is at most this times both |x| and the longest step; 0: off
 *   float  min_lm_diagonal 1e-6        bounds of the diagonal of J^T J that the damping is made of, relative to its largest entry
 *   float  max_lm_diagonal 1e32        for the same channel of the same unknown: D = clamp(diagonal, min, max) / radius
 *   int    residual_reset_period 10    no effect: the linear solver never recomputes its residual
 *
 * LM's parameters are accepted and without effect for Gauss-Newton. LM also ends where the decrease drowns in rounding. */
void Opt_SetSolverParameter(Opt_State *state, Opt_Plan *plan, const char *name, void *value);

/* Opt_ProblemInit, then Opt_ProblemStep until it returns 0. */
void Opt_ProblemSolve(Opt_State *state, Opt_Plan *plan, void **problemparams);

/* Starts a solve from the unknowns as they are. */
void Opt_ProblemInit(Opt_State *state, Opt_Plan *plan, void **problemparams);

/* Takes a step. Returns 0 when finished: after nIterations steps (that call takes none), at a tolerance, or on an error. */
int Opt_ProblemStep(Opt_State *state, Opt_Plan *plan, void **problemparams);

/* HALF the sum of squared residuals, as of the last init or step; NaN if there was none. (The energy that sumsq's own
 * interfaces report is the sum itself: twice this.) */
double Opt_ProblemCurrentCost(Opt_State *state, Opt_Plan *plan);

#ifdef __cplusplus
}
#endif

#endif
