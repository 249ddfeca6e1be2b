// An energy over given arrays, as a Ceres problem.
#pragma once

#include <ceres/ceres.h>

#include <memory>
#include <string>
#include <vector>

#include "arrays.h"

// How unknowns become parameter blocks. Ceres stores J densely per residual block and parameter block, and its JACOBI
// preconditioner inverts one diagonal block of J^T J per parameter block.
enum class Blocks {
  kElement,  // one block for all unknowns of a pixel or vertex: the stronger preconditioner
  kUnknown,  // one block per unknown, channels apart where they do not mix: fewer stored zeros
};

struct Instance {
  // The parameter blocks point into these.
  std::vector<std::vector<double>> unknowns;
  std::unique_ptr<ceres::Problem> problem;
};

// Every energy by its name. Residuals are those of the energy, one for one; those that read no free unknown are left out, as
// they are in E.
Instance BuildImageWarping(const Arrays& arrays, Blocks blocks);
Instance BuildArapMeshDeformation(const Arrays& arrays, Blocks blocks);
Instance BuildPoissonImageEditing(const Arrays& arrays, Blocks blocks);
Instance BuildShapeFromShading(const Arrays& arrays, Blocks blocks);

// A problem that trusts its caller, so that building it is not slower than need be.
inline std::unique_ptr<ceres::Problem> NewProblem() {
  ceres::Problem::Options options;
  options.disable_all_safety_checks = true;
  return std::make_unique<ceres::Problem>(options);
}

// The grid neighbours of a pixel, in the order of the energies.
constexpr int kNeighbours[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
