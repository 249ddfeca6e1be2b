// Layers and a convolution with their gradients, as `examples/src/pipelines/` and `src/suite/gradients/` have them: the arguments are the
// inputs, the slopes `w` of what the output adds to, then the output and the slopes J^T w by each input.
#pragma once

#include "recipe.h"

void Convolution(Recipe& recipe);
void Gather(Recipe& recipe);
void Atomic(Recipe& recipe);
void SpatialTransformer(Recipe& recipe);
void FlowWarp(Recipe& recipe);
void BilateralSlice(Recipe& recipe);
void Demosaicking(Recipe& recipe);

// An input whose coordinates begin at 0.
Halide::ImageParam Array(Recipe& recipe, const std::string& name, const std::vector<int>& size);

// An output and the Func that it copies, so that sums can be kept in registers; for an autoscheduler they are the same.
struct Slope {
  Halide::Func stored, sum;
};

// Halide's derivative of an output of that size, whose slopes are the input `w`.
class Slopes {
 public:
  Slopes(Recipe& recipe, Halide::Func output, const std::vector<int>& size);

  // The slopes by an input of that size, an output of the recipe: `in_place` without a copy.
  Slope Of(Recipe& recipe, const Halide::ImageParam& input, const std::vector<int>& size, bool in_place = false);

  // Those of a Func, or of one of its updates.
  Halide::Func Of(const Halide::Func& f, int update = -1) const { return derivative_(f, update); }

  // `w`, and 0 around it, which derived gathers read: Halide takes what it is given for as large as they ask.
  Halide::Func seed;

 private:
  Halide::Derivative derivative_;
};

// Schedules an update of a small Func that sums over an image: sums of strips of rows, each of vectors of pixels. The Func of these vectors.
Halide::Func SumByStrips(Recipe& recipe, Halide::Func sum, int update, int rows);
