#include <cmath>

#include "applications.h"

using namespace Halide;

namespace {

constexpr int kRadius = 26;
// Powers of two of rows, the largest the first that is not below the radius.
constexpr int kSlices = 6;

}  // namespace

void MaxFilter(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 3});
  Var x("x"), y("y"), c("c"), t("t"), strip("strip"), task("task");
  const Region clamped{{input.dim(0).min(), input.dim(0).extent()}, {input.dim(1).min(), input.dim(1).extent()}};
  Func edge = BoundaryConditions::repeat_edge(input, clamped);
  Func columns("columns"), slice_of("slice_of"), column("column"), half("half"), output("output");

  // columns(.., t): maximum of 2^t rows downwards.
  RDom r(-kRadius, input.height() + kRadius, 1, kSlices - 1);
  columns(x, y, c, t) = edge(x, y, c);
  const Expr reach = clamp(1 << (r.y - 1), 0, kRadius * 2);
  columns(x, r.x, c, r.y) = max(columns(x, r.x, c, r.y - 1), columns(x, r.x + reach, c, r.y - 1));

  slice_of(t) = cast<int>(floor(log(2 * t + 1) / std::log(2.0f)));
  const Expr slice = clamp(slice_of(t), 0, kSlices);
  const Expr from_top = columns(x, y - t, c, slice);
  const Expr to_bottom = columns(x, y + t + 1 - clamp(1 << slice, 0, 2 * kRadius), c, slice);
  column(x, y, c, t) = max(from_top, to_bottom);

  RDom dy(0, kRadius + 1), dx(-kRadius, 2 * kRadius + 1);
  half(x) = sum(select(x * x + dy * dy < (kRadius + 0.25f) * (kRadius + 0.25f), 1, 0));
  output(x, y, c) = maximum(column(x + dx, y, c, clamp(half(dx), 0, kRadius + 1)));
  recipe.Output(output, {kWidth, kHeight, 3});
  if (!recipe.hand) return;

  constexpr int kLanes = 8;
  slice_of.compute_root();
  half.compute_root();
  output.compute_root().split(x, strip, x, 256).reorder(x, y, c, strip).fuse(c, strip, task).parallel(task).vectorize(x, kLanes);
  columns.compute_at(output, task).vectorize(x, kLanes);
  columns.update().reorder(x, r.x, r.y, c).vectorize(x, kLanes);
  column.compute_at(output, y).vectorize(x, kLanes);
}
