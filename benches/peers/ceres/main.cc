// ceres-peer ENERGY FILE [--NAME VALUE]...: minimises one of the energies with Ceres; prints how it went as JSON.
//
// Energies are sums of squares here as in sumsq: twice the cost that Ceres reports. Times are in seconds, wall clock.
#include <ceres/ceres.h>
#include <glog/logging.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>

#include "arrays.h"
#include "instance.h"

namespace {

struct Arguments {
  std::string energy, file;
  bool cholesky = false;
  Blocks blocks = Blocks::kElement;
  int threads = 2;
  double radius = 1e4;
  double eta = 1e-2;
  // Ends at the first accepted energy that is no larger.
  double target = -std::numeric_limits<double>::infinity();
  double max_seconds = 180;
  int max_steps = 100000;
};

const char kUsage[] =
    "usage: ceres-peer ENERGY FILE [--solver cgnr|cholesky] [--blocks element|unknown] [--threads N] [--radius R]\n"
    "                  [--eta Z] [--target E] [--max-seconds S] [--max-steps N]";

Arguments Parse(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) throw std::runtime_error(kUsage);
  Arguments a;
  a.energy = argv[1];
  a.file = argv[2];
  for (int i = 3; i < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--solver" && (value == "cgnr" || value == "cholesky")) a.cholesky = value == "cholesky";
    else if (name == "--blocks" && value == "element") a.blocks = Blocks::kElement;
    else if (name == "--blocks" && value == "unknown") a.blocks = Blocks::kUnknown;
    else if (name == "--threads") a.threads = std::stoi(value);
    else if (name == "--radius") a.radius = std::stod(value);
    else if (name == "--eta") a.eta = std::stod(value);
    else if (name == "--target") a.target = std::stod(value);
    else if (name == "--max-seconds") a.max_seconds = std::stod(value);
    else if (name == "--max-steps") a.max_steps = std::stoi(value);
    else throw std::runtime_error(name + " " + value + " is not understood\n" + kUsage);
  }
  return a;
}

Instance Build(const Arguments& a, const Arrays& arrays) {
  if (a.energy == "image_warping") return BuildImageWarping(arrays, a.blocks);
  if (a.energy == "arap_mesh_deformation") return BuildArapMeshDeformation(arrays, a.blocks);
  if (a.energy == "poisson_image_editing") return BuildPoissonImageEditing(arrays, a.blocks);
  if (a.energy == "shape_from_shading") return BuildShapeFromShading(arrays, a.blocks);
  throw std::runtime_error("there is no energy " + a.energy);
}

// Ends the solve at the target.
class Target : public ceres::IterationCallback {
 public:
  explicit Target(double energy) : energy_(energy) {}

  ceres::CallbackReturnType operator()(const ceres::IterationSummary& s) override {
    const bool reached = s.step_is_successful && 2 * s.cost <= energy_;
    return reached ? ceres::SOLVER_TERMINATE_SUCCESSFULLY : ceres::SOLVER_CONTINUE;
  }

 private:
  double energy_;
};

ceres::Solver::Options SolverOptions(const Arguments& a) {
  ceres::Solver::Options options;
  options.minimizer_type = ceres::TRUST_REGION;
  options.trust_region_strategy_type = ceres::LEVENBERG_MARQUARDT;
  options.initial_trust_region_radius = a.radius;
  options.max_num_iterations = a.max_steps;
  options.max_solver_time_in_seconds = a.max_seconds;
  options.num_threads = a.threads;
  options.eta = a.eta;
  options.logging_type = ceres::SILENT;
  if (a.cholesky) {
    options.linear_solver_type = ceres::SPARSE_NORMAL_CHOLESKY;
    options.sparse_linear_algebra_library_type = ceres::SUITE_SPARSE;
  } else {
    options.linear_solver_type = ceres::CGNR;
    options.preconditioner_type = ceres::JACOBI;
  }
  return options;
}

void Print(const ceres::Solver::Summary& summary, double build_seconds) {
  std::printf("{\"version\": \"%s\", \"initial\": %.17g, \"build\": %.9g, \"preprocess\": %.9g,\n",
              CERES_VERSION_STRING, 2 * summary.initial_cost, build_seconds, summary.preprocessor_time_in_seconds);
  std::printf(" \"residuals\": %d, \"unknowns\": %d, \"termination\": \"%s\",\n", summary.num_residuals_reduced,
              summary.num_effective_parameters_reduced, ceres::TerminationTypeToString(summary.termination_type));
  std::printf(" \"jacobian\": %.9g, \"linear_solver\": %.9g, \"steps\": [", summary.jacobian_evaluation_time_in_seconds,
              summary.linear_solver_time_in_seconds);
  const char* separator = "\n";
  for (const ceres::IterationSummary& s : summary.iterations) {
    if (s.iteration == 0) continue;
    std::printf("%s  {\"seconds\": %.9g, \"energy\": %.17g, \"accepted\": %s, \"linear\": %d}", separator,
                s.cumulative_time_in_seconds - summary.preprocessor_time_in_seconds, 2 * s.cost,
                s.step_is_successful ? "true" : "false", s.linear_solver_iterations);
    separator = ",\n";
  }
  std::printf("]}\n");
}

int Run(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const Arrays arrays(arguments.file);
  const auto start = std::chrono::steady_clock::now();
  Instance instance = Build(arguments, arrays);
  const std::chrono::duration<double> build = std::chrono::steady_clock::now() - start;

  ceres::Solver::Options options = SolverOptions(arguments);
  Target target(arguments.target);
  options.callbacks.push_back(&target);
  ceres::Solver::Summary summary;
  ceres::Solve(options, instance.problem.get(), &summary);
  if (summary.termination_type == ceres::FAILURE && summary.iterations.empty()) {
    throw std::runtime_error(summary.message);
  }
  Print(summary, build.count());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  FLAGS_minloglevel = google::GLOG_ERROR;
  try {
    return Run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ceres-peer: %s\n", e.what());
    return 1;
  }
}
