#include <cmath>

#include "applications.h"

using namespace Halide;

namespace {

constexpr float kSigma = 1.5f;

float Weight(int i) {
  const float pi = 3.14159265f;
  return std::exp(static_cast<float>(-i * i) / (2 * kSigma * kSigma)) / (std::sqrt(2 * pi) * kSigma);
}

// Seven taps, symmetric: `at(i)` is the value at distance i.
template <typename At>
Expr Smooth(At at) {
  Expr sum = Weight(0) * at(0);
  for (int i = 1; i <= 3; i++) sum += Weight(i) * (at(-i) + at(i));
  return sum;
}

}  // namespace

void Unsharp(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 3});
  Var x("x"), y("y"), c("c"), strip("strip"), row("row");
  Func edge = BoundaryConditions::repeat_edge(input);
  Func gray("gray"), down("down"), across("across"), ratio("ratio"), output("output");
  gray(x, y) = Luminance(edge(x, y, 0), edge(x, y, 1), edge(x, y, 2));
  down(x, y) = Smooth([&](int i) -> Expr { return gray(x, y + i); });
  across(x, y) = Smooth([&](int i) -> Expr { return down(x + i, y); });
  ratio(x, y) = (2 * gray(x, y) - across(x, y)) / gray(x, y);
  output(x, y, c) = ratio(x, y) * input(x, y, c);
  recipe.Output(output, {kWidth, kHeight, 3});
  if (!recipe.hand) return;
  const int lanes = recipe.FloatLanes();
  output.split(y, strip, row, 32).vectorize(x, lanes).parallel(strip).reorder(x, c, row, strip);
  for (Func stage : {gray, down, ratio}) stage.compute_at(output, row).store_at(output, strip).vectorize(x, lanes);
}
