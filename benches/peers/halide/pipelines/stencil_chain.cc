#include "applications.h"

using namespace Halide;

namespace {

constexpr int kStages = 32;
// Stages that slide together down a tile; the last of each group is stored whole.
constexpr int kGroup = 11;

void Schedule(std::vector<Func>& stages, int lanes) {
  Var tile_x("tile_x"), tile_y("tile_y"), in_x("in_x"), in_y("in_y"), tile("tile");
  for (int last = kStages; last > 0; last -= kGroup) {
    Func out = stages[last];
    const Var x = out.args()[0], y = out.args()[1];
    const int margin = 4 * (kStages - last);
    out.compute_root().tile(x, y, tile_x, tile_y, in_x, in_y, (kWidth + margin) / 4, (kHeight + margin) / 4);
    out.fuse(tile_x, tile_y, tile).parallel(tile).vectorize(in_x, lanes);
    for (int i = std::max(0, last - kGroup + 1); i < last; i++) {
      stages[i].store_at(out, tile).compute_at(out, in_y).vectorize(stages[i].args()[0], lanes);
    }
  }
}

}  // namespace

void StencilChain(Recipe& recipe) {
  ImageParam input = recipe.Input("input", UInt(16), {kWidth, kHeight});
  Var x("x"), y("y");
  std::vector<Func> stages{BoundaryConditions::repeat_edge(input)};
  for (int s = 1; s <= kStages; s++) {
    Expr sum = cast<uint16_t>(0);
    for (int i = -2; i <= 2; i++) {
      for (int j = -2; j <= 2; j++) sum += cast<uint16_t>((i + 3) * (j + 3)) * stages.back()(x + i, y + j);
    }
    Func stage("stage" + std::to_string(s));
    stage(x, y) = sum;
    stages.push_back(stage);
  }
  recipe.Output(stages.back(), {kWidth, kHeight});
  if (recipe.hand) Schedule(stages, recipe.Lanes(UInt(16)));
}
