#include "applications.h"

using namespace Halide;

namespace {

constexpr int kLevels = 8;

Var x("x"), y("y"), c("c"), k("k");

// Halves the image with weights 1 3 3 1, y first.
Func Half(Func f) {
  Func down, across;
  const auto taps = [](const Expr& a, const Expr& b, const Expr& c, const Expr& d) { return (a + 3.0f * (b + c) + d) / 8.0f; };
  down(x, y, _) = taps(f(x, 2 * y - 1, _), f(x, 2 * y, _), f(x, 2 * y + 1, _), f(x, 2 * y + 2, _));
  across(x, y, _) = taps(down(2 * x - 1, y, _), down(2 * x, y, _), down(2 * x + 1, y, _), down(2 * x + 2, y, _));
  return across;
}

// Doubles the image with bilinear interpolation, x first.
Func Twice(Func f) {
  Func across, down;
  const auto weight = [](const Var& v) { return ((v % 2) * 2 + 1) / 4.0f; };
  across(x, y, _) = lerp(f((x + 1) / 2, y, _), f((x - 1) / 2, y, _), weight(x));
  down(x, y, _) = lerp(across(x, (y + 1) / 2, _), across(x, (y - 1) / 2, _), weight(y));
  return down;
}

struct Stages {
  Func remap, gray, output;
  // Pyramids: of the input, of its remapped copies, of the output.
  std::vector<Func> input, remapped, result;
};

void Schedule(Stages& s) {
  constexpr int kLanes = 8, kFine = 5;
  Var strip("strip");
  s.remap.compute_root();
  s.output.reorder(c, x, y).split(y, strip, y, 64).parallel(strip).vectorize(x, kLanes);
  s.gray.compute_root().never_partition(y).parallel(y, 32).vectorize(x, kLanes);
  for (int j = 1; j < kLevels; j++) {
    if (j >= kFine) {
      s.input[j].compute_root();
      s.remapped[j].compute_root().parallel(k);
      s.result[j].compute_root();
      continue;
    }
    s.input[j].compute_root().parallel(y, 32).vectorize(x, kLanes);
    s.remapped[j].compute_root().reorder_storage(x, k, y).reorder(k, y).parallel(y, 8).vectorize(x, kLanes);
    s.result[j].store_at(s.output, strip).compute_at(s.output, y).fold_storage(y, 4);
    s.result[j].vectorize(x, kLanes, TailStrategy::RoundUp);
    if (j > 1) {
      s.input[j].never_partition_all();
      s.remapped[j].never_partition_all();
    }
  }
  s.result[0].compute_at(s.output, y).hoist_storage(s.output, strip).vectorize(x, kLanes, TailStrategy::RoundUp);
}

}  // namespace

void LocalLaplacian(Recipe& recipe) {
  ImageParam image = recipe.Input("input", UInt(16), {kWidth, kHeight, 3});
  Param<int> levels = recipe.Scalar<int>("levels", 8);
  Param<float> alpha = recipe.Scalar<float>("alpha", 1.0f / 7);
  Param<float> beta = recipe.Scalar<float>("beta", 1.0f);
  Stages s{Func("remap"), Func("gray"), Func("output")};
  for (std::vector<Func>* pyramid : {&s.input, &s.remapped, &s.result}) pyramid->resize(kLevels);

  const Expr f = cast<float>(x) / 256.0f;
  s.remap(x) = alpha * f * exp(-f * f / 2.0f);
  Func edge = BoundaryConditions::repeat_edge(image);
  Func scaled("scaled");
  scaled(x, y, c) = edge(x, y, c) / 65535.0f;
  s.gray(x, y) = Luminance(scaled(x, y, 0), scaled(x, y, 1), scaled(x, y, 2));

  const Expr steps = cast<float>(levels - 1);
  const Expr level = k * (1.0f / (levels - 1));
  const Expr index = clamp(cast<int>(s.gray(x, y) * steps * 256.0f), 0, (levels - 1) * 256);
  s.remapped[0](x, y, k) = beta * (s.gray(x, y) - level) + level + s.remap(index - 256 * k);
  s.input[0](x, y) = s.gray(x, y);
  for (int j = 1; j < kLevels; j++) {
    s.remapped[j](x, y, k) = Half(s.remapped[j - 1])(x, y, k);
    s.input[j](x, y) = Half(s.input[j - 1])(x, y);
  }
  for (int j = kLevels - 1; j >= 0; j--) {
    Func detail, chosen;
    const bool top = j == kLevels - 1;
    detail(x, y, k) = top ? s.remapped[j](x, y, k) : s.remapped[j](x, y, k) - Twice(s.remapped[j + 1])(x, y, k);
    const Expr at = s.input[j](x, y) * steps;
    const Expr below = clamp(cast<int>(at), 0, levels - 2);
    const Expr part = at - cast<float>(below);
    chosen(x, y) = (1.0f - part) * detail(x, y, below) + part * detail(x, y, below + 1);
    s.result[j](x, y) = top ? Expr(chosen(x, y)) : Twice(s.result[j + 1])(x, y) + chosen(x, y);
  }

  constexpr float kEpsilon = 0.01f;
  const Expr color = image(x, y, c) * (s.result[0](x, y) + kEpsilon) / (s.gray(x, y) + kEpsilon);
  s.output(x, y, c) = cast<uint16_t>(clamp(color, 0.0f, 65535.0f));
  recipe.Output(s.output, {kWidth, kHeight, 3});
  if (recipe.hand) Schedule(s);
}
