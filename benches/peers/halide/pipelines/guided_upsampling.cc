#include "applications.h"

using namespace Halide;

namespace {

constexpr int kSmallWidth = 192, kSmallHeight = 320;
// Unknowns of a cell's affine map, and its columns: the outputs.
constexpr int kRows = 4, kColumns = 3;

Var x("x"), y("y"), z("z"), c("c");

Expr Gray(Func f) { return 0.25f * f(x, y, 0) + 0.5f * f(x, y, 1) + 0.25f * f(x, y, 2); }

template <typename At>
Expr Smooth(At at) {
  const float weights[] = {1.0f, 1.0f / 8, 1.0f / 27, 1.0f / 64};
  Expr sum = at(0) * weights[0];
  for (int i = 1; i <= 3; i++) sum += (at(-i) + at(i)) * weights[i];
  return sum;
}

struct Stages {
  Func gray{"gray"}, cells{"cells"}, blur_z{"blur_z"}, blur_y{"blur_y"}, blur_x{"blur_x"}, system{"system"}, line{"line"},
      rows{"rows"}, columns{"columns"}, bins{"bins"}, map{"map"}, output{"output"};
};

// Products of the small input with itself and with the small output, summed per cell and bin.
void Splat(Stages& s, RDom& r, Func from, Func to, const Expr& cell, const Expr& scale) {
  s.gray(x, y) = Gray(from);
  const Expr at_x = x * cell + r.x - cell / 2, at_y = y * cell + r.y - cell / 2;
  const Expr bin = cast<int>(round(clamp(s.gray(at_x, at_y), 0.0f, 1.0f) * scale));
  const auto in = [&](int i) -> Expr { return i == 3 ? Expr(1.0f) : Expr(from(at_x, at_y, i)); };
  std::vector<Expr> products;
  for (int i = 0; i < kRows; i++) {
    for (int j = i; j < kRows; j++) products.push_back(in(i) * in(j));
  }
  for (int i = 0; i < kColumns; i++) {
    for (int j = 0; j < kRows; j++) products.push_back(to(at_x, at_y, i) * in(j));
  }
  s.cells(x, y, z, c) = 0.0f;
  s.cells(x, y, bin, c) += mux(c, products);
  s.blur_z(x, y, z, c) = Smooth([&](int i) -> Expr { return s.cells(x, y, z + i, c); });
  s.blur_y(x, y, z, c) = Smooth([&](int i) -> Expr { return s.blur_z(x, y + i, z, c); });
  s.blur_x(x, y, z, c) = Smooth([&](int i) -> Expr { return s.blur_y(x + i, y, z, c); });
}

// The affine maps: L D L^T of a symmetric system per cell and bin. Column kRows + c is the right side of output c.
void Solve(Stages& s) {
  constexpr float kTowardsIdentity = 0.1f;
  Var i("i"), j("j");
  s.system(x, y, z, i, j) = undef<float>();
  const auto at = [&](int row, int column) { return s.system(x, y, z, row, column); };
  int channel = 0;
  for (int row = 0; row < kRows; row++) {
    for (int column = row; column < kRows; column++) {
      at(row, column) = s.blur_x(x, y, z, channel++) + (row == column ? kTowardsIdentity : 0.0f);
    }
  }
  for (int column = 0; column < kColumns; column++) {
    for (int row = 0; row < kRows; row++) {
      at(row, kRows + column) = s.blur_x(x, y, z, channel++) + (row == column ? kTowardsIdentity : 0.0f);
    }
  }
  for (int k = 0; k < kRows; k++) {
    at(k, k) = 1.0f / at(k, k);
    for (int row = k + 1; row < kRows; row++) {
      at(row, k) = at(k, row) * at(k, k);
      for (int column = row; column < kRows + kColumns; column++) at(row, column) -= at(row, k) * at(k, column);
    }
  }
  for (int column = kRows; column < kRows + kColumns; column++) {
    for (int k = kRows - 1; k >= 0; k--) {
      Expr rest = at(k, column);
      for (int row = k + 1; row < kRows; row++) rest -= at(k, row) * at(row, column);
      at(k, column) = rest * at(k, k);
    }
  }
  std::vector<Expr> entries;
  for (int column = 0; column < kColumns; column++) {
    for (int row = 0; row < kRows; row++) entries.push_back(at(row, kRows + column));
  }
  s.line(x, y, z, c) = mux(c, entries);
}

void Slice(Stages& s, Func guide, const Expr& cell, const Expr& r_sigma) {
  const auto whole = [&](const Var& v) { return cast<int>(floor(cast<float>(v) / cell)); };
  const auto part = [&](const Var& v) { return cast<float>(v) / cell - whole(v); };
  s.rows(x, y, z, c) = lerp(s.line(x, whole(y), z, c), s.line(x, whole(y) + 1, z, c), part(y));
  s.columns(x, y, z, c) = lerp(s.rows(whole(x), y, z, c), s.rows(whole(x) + 1, y, z, c), part(x));
  const Expr at = clamp(Gray(guide), 0.0f, 1.0f) * cast<int>(1.0f / r_sigma);
  s.bins(x, y) = {cast<int>(at), at - cast<int>(at)};
  const Expr bin = s.bins(x, y)[0];
  s.map(x, y, c) = lerp(s.columns(x, y, bin, c), s.columns(x, y, bin + 1, c), s.bins(x, y)[1]);
  Expr value = s.map(x, y, 4 * c + 3);
  for (int i = 0; i < 3; i++) value += s.map(x, y, 4 * c + i) * guide(x, y, i);
  s.output(x, y, c) = clamp(value, 0.0f, 1.0f);
}

void Schedule(Stages& s, RDom& r) {
  constexpr int kLanes = 8;
  s.cells.compute_at(s.blur_z, y).update().reorder(c, r.x, r.y, x, y).unroll(c);
  s.gray.compute_at(s.blur_z, y).vectorize(x, kLanes);
  s.blur_z.compute_root().reorder(c, z, x, y).parallel(y).vectorize(x, kLanes);
  s.blur_y.compute_at(s.line, z).hoist_storage(s.line, y).vectorize(x, kLanes);
  s.blur_x.compute_at(s.line, x).vectorize(x);
  s.system.compute_at(s.line, x);
  for (int i = 0; i < s.system.num_update_definitions(); i++) s.system.update(i).vectorize(x);
  s.line.compute_root().parallel(y).vectorize(x, kLanes).reorder(c, x, y).unroll(c);
  s.rows.compute_root().parallel(c).parallel(z).vectorize(x, kLanes);
  s.map.store_at(s.output, x).compute_at(s.output, c).reorder(c, x, y).unroll(c).vectorize(x);
  s.output.compute_root().parallel(y).vectorize(x, kLanes).reorder(c, x, y).bound(c, 0, 3).unroll(c);
}

}  // namespace

void GuidedUpsampling(Recipe& recipe) {
  ImageParam from = recipe.Input("splat_loc", Float(32), {kSmallWidth, kSmallHeight, 3});
  ImageParam to = recipe.Input("values", Float(32), {kSmallWidth, kSmallHeight, 3});
  ImageParam guide = recipe.Input("slice_loc", Float(32), {kWidth, kHeight, 3});
  Param<float> r_sigma = recipe.Scalar<float>("r_sigma", 1.0f / 8);
  Param<int> s_sigma = recipe.Scalar<int>("s_sigma", 16);
  Stages s;
  RDom r(0, s_sigma, 0, s_sigma);
  const auto ratio = [&](int d) { return cast<int>(ceil(cast<float>(guide.dim(d).extent()) / from.dim(d).extent())); };
  Splat(s, r, BoundaryConditions::repeat_edge(from), BoundaryConditions::repeat_edge(to), s_sigma, 1.0f / r_sigma);
  Solve(s);
  Slice(s, guide, s_sigma * max(ratio(0), ratio(1)), r_sigma);
  recipe.Output(s.output, {kWidth, kHeight, 3});
  if (recipe.hand) Schedule(s, r);
}
