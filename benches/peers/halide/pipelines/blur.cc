#include "applications.h"

using namespace Halide;

void Blur(Recipe& recipe) {
  constexpr int kBlurWidth = 6400, kBlurHeight = 4800, kStrip = 32, kLanes = 16;
  ImageParam input = recipe.Input("input", UInt(16), {kBlurWidth + 8, kBlurHeight + 2});
  Var x("x"), y("y"), row("row");
  Func across("across"), output("output");
  across(x, y) = (input(x, y) + input(x + 1, y) + input(x + 2, y)) / 3;
  output(x, y) = (across(x, y) + across(x, y + 1) + across(x, y + 2)) / 3;
  recipe.Output(output, {kBlurWidth, kBlurHeight});
  if (!recipe.hand) return;
  // Strips in parallel; a window of three rows slides down each.
  output.split(y, y, row, kStrip).parallel(y).vectorize(x, kLanes);
  across.store_at(output, y).compute_at(output, x).vectorize(x, kLanes);
}
