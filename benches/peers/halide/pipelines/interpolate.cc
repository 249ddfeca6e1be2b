#include "applications.h"

using namespace Halide;

namespace {

constexpr int kLevels = 10;
// The level that has a boundary of its own, so that the coarse levels do not look far beyond the image.
constexpr int kBounded = 4;

Var x("x"), y("y"), c("c");

std::vector<Func> Pyramid(const std::string& name) {
  std::vector<Func> levels;
  for (int l = 0; l < kLevels; l++) levels.emplace_back(name + std::to_string(l));
  return levels;
}

struct Stages {
  std::vector<Func> down_x = Pyramid("down_x"), down = Pyramid("down"), filled = Pyramid("filled");
  Func output{"output"};
};

void Schedule(Stages& s, const ImageParam& input, int lanes) {
  Var strip("strip"), row("row"), block("block"), lane("lane");
  for (int l = 1; l < kLevels - 1; l++) {
    s.down[l].compute_root().never_partition(x).reorder(x, c, y).split(y, strip, row, 8).parallel(strip).vectorize(x, lanes);
  }
  // The finest level is cheaper to compute again than to store; the first halving has a copy for itself.
  Func first = s.down[0].clone_in(s.down_x[1]);
  first.store_at(s.down[1], strip).compute_at(s.down[1], row).reorder(c, x, y).unroll(c).vectorize(x, lanes).never_partition(y);
  s.output.bound(x, 0, input.width()).bound(y, 0, input.height()).bound(c, 0, 3).never_partition(y);
  s.output.split(x, block, lane, lanes).split(y, strip, row, 32).reorder(lane, c, block, row, strip);
  s.output.unroll(c).vectorize(lane).parallel(strip);
  for (int l = 1; l < kLevels; l++) {
    s.filled[l].store_at(s.output, strip).compute_at(s.output, row).never_partition_all().vectorize(x, lanes);
  }
}

}  // namespace

void Interpolate(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kWidth, kHeight, 4});
  input.dim(2).set_bounds(0, 4);
  Stages s;
  Func edge = BoundaryConditions::repeat_edge(input);
  s.down[0](x, y, c) = select(c < 3, edge(x, y, c) * edge(x, y, 3), edge(x, y, 3));
  const auto taps = [](const Expr& a, const Expr& b, const Expr& c) { return (a + 2.0f * b + c) * 0.25f; };
  for (int l = 1; l < kLevels; l++) {
    Func from = s.down[l - 1];
    if (l == kBounded) {
      const int scale = 1 << (l - 1);
      Func bounded("bounded");
      bounded(x, y, c) = from(clamp(x, 0, input.width() / scale), clamp(y, 0, input.height() / scale), c);
      from = bounded;
    }
    s.down_x[l](x, y, c) = taps(from(2 * x - 1, y, c), from(2 * x, y, c), from(2 * x + 1, y, c));
    s.down[l](x, y, c) = taps(s.down_x[l](x, 2 * y - 1, c), s.down_x[l](x, 2 * y, c), s.down_x[l](x, 2 * y + 1, c));
  }
  s.filled[kLevels - 1](x, y, c) = s.down[kLevels - 1](x, y, c);
  for (int l = kLevels - 2; l >= 0; l--) {
    Func coarse = s.filled[l + 1], up_x("up_x"), up("up");
    up_x(x, y, c) = (coarse(x / 2, y, c) + coarse((x + 1) / 2, y, c)) / 2.0f;
    up(x, y, c) = (up_x(x, y / 2, c) + up_x(x, (y + 1) / 2, c)) / 2.0f;
    s.filled[l](x, y, c) = s.down[l](x, y, c) + (1.0f - s.down[l](x, y, 3)) * up(x, y, c);
  }
  s.output(x, y, c) = s.filled[0](x, y, c) / s.filled[0](x, y, 3);
  recipe.Output(s.output, {kWidth, kHeight, 3});
  if (recipe.hand) Schedule(s, input, recipe.FloatLanes());
}
