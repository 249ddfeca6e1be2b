#include "applications.h"

using namespace Halide;

namespace {

constexpr int kCell = 8;

// Five binomial taps, not normalised.
template <typename At>
Expr Binomial(At at) {
  return at(-2) + at(-1) * 4 + at(0) * 6 + at(1) * 4 + at(2);
}

// Trilinear between the eight cells around (cell_x, cell_y, bin): `corner(dx, dy, dz)`.
template <typename At>
Expr Trilinear(At corner, const Expr& fx, const Expr& fy, const Expr& fz) {
  const auto plane = [&](int dz) {
    const auto line = [&](int dy) { return lerp(corner(0, dy, dz), corner(1, dy, dz), fx); };
    return lerp(line(0), line(1), fy);
  };
  return lerp(plane(0), plane(1), fz);
}

}  // namespace

void BilateralGrid(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight});
  Param<float> r_sigma = recipe.Scalar<float>("r_sigma", 0.1f);
  Var x("x"), y("y"), z("z"), c("c");
  const Expr scale = 1.0f / r_sigma;
  Func edge = BoundaryConditions::repeat_edge(input);
  Func cells("cells"), blur_z("blur_z"), blur_x("blur_x"), blur_y("blur_y"), sample("sample"), output("output");

  RDom r(0, kCell, 0, kCell);
  const Expr splat = clamp(edge(x * kCell + r.x - kCell / 2, y * kCell + r.y - kCell / 2), 0.0f, 1.0f);
  cells(x, y, z, c) = 0.0f;
  cells(x, y, cast<int>(splat * scale + 0.5f), c) += mux(c, {splat, 1.0f});
  blur_z(x, y, z, c) = Binomial([&](int i) -> Expr { return cells(x, y, z + i, c); });
  blur_x(x, y, z, c) = Binomial([&](int i) -> Expr { return blur_z(x + i, y, z, c); });
  blur_y(x, y, z, c) = Binomial([&](int i) -> Expr { return blur_x(x, y + i, z, c); });

  const Expr at = clamp(input(x, y), 0.0f, 1.0f) * scale;
  const Expr bin = cast<int>(at);
  const auto corner = [&](int dx, int dy, int dz) -> Expr { return blur_y(x / kCell + dx, y / kCell + dy, bin + dz, c); };
  const auto part = [](const Var& v) { return cast<float>(v % kCell) / kCell; };
  sample(x, y, c) = Trilinear(corner, part(x), part(y), at - bin);
  output(x, y) = sample(x, y, 0) / sample(x, y, 1);
  recipe.Output(output, {kWidth, kHeight});
  cells.set_estimate(z, -2, 16);
  for (Func blurred : {blur_z, blur_x, blur_y}) blurred.set_estimate(z, 0, 12);
  if (!recipe.hand) return;

  constexpr int kLanes = 8;
  blur_z.compute_at(blur_x, y).reorder(c, z, x, y).vectorize(x, kLanes).unroll(c);
  cells.compute_at(blur_z, y);
  cells.update().reorder(c, r.x, r.y, x, y).unroll(c);
  blur_x.compute_root().reorder(c, x, z, y).parallel(y).vectorize(x, kLanes).unroll(c);
  blur_y.compute_at(output, y).store_in(MemoryType::Stack).reorder(c, x, y, z).reorder_storage(c, z, x, y);
  blur_y.vectorize(x, kLanes).unroll(c);
  output.compute_root().parallel(y, 8).vectorize(x, kLanes);
}
