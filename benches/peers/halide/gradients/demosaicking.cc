#include "gradients.h"

using namespace Halide;

// Nine filters of 5 x 5 taps for green, as many for edges.
void Demosaicking(Recipe& recipe) {
  constexpr int kFilters = 9, kSide = 5;
  constexpr float kFaint = 1e-3f;
  const std::vector<int> size{1024, 1024}, taps{kSide, kSide, kFilters};
  const std::vector<std::vector<int>> sizes{size, taps, taps, {2, 3}, {3, 2}, {2, 2}};
  const std::vector<std::string> names{"mosaic", "green", "edges", "beside", "below", "diagonal"};
  std::vector<ImageParam> inputs;
  for (size_t i = 0; i < sizes.size(); i++) inputs.push_back(Array(recipe, names[i], sizes[i]));
  Var x("x"), y("y"), c("c"), k("k");
  // Of an input the library would make a Func that no schedule reaches, and compute its slopes anew for each pixel.
  Func source("source");
  source(x, y) = inputs[0](x, y);
  Func near = BoundaryConditions::mirror_interior(source, {{0, size[0]}, {0, size[1]}});
  RDom tap(0, kSide, 0, kSide), filter(0, kFilters);
  const auto filtered = [&](const char* name, ImageParam& of) {
    Func sum(name);
    sum(x, y, k) += near(x + tap.x - kSide / 2, y + tap.y - kSide / 2) * of(tap.x, tap.y, k);
    return sum;
  };
  Func candidate = filtered("candidate", inputs[1]), response = filtered("response", inputs[2]);
  Func tall("tall"), share("share"), sums("sums"), filled("filled"), apart("apart"), output("output");
  const auto square = [&](int dy) { return response(x, y + dy, k) * response(x, y + dy, k); };
  tall(x, y, k) = square(-1) + square(0) + square(1);
  share(x, y, k) = 1.0f / (tall(x - 1, y, k) + tall(x, y, k) + tall(x + 1, y, k) + kFaint);
  sums(x, y) = Tuple(0.0f, 0.0f);
  sums(x, y) = Tuple(sums(x, y)[0] + share(x, y, filter) * candidate(x, y, filter), sums(x, y)[1] + share(x, y, filter));
  filled(x, y) = select(x % 2 == y % 2, sums(x, y)[0] / sums(x, y)[1], near(x, y));
  apart(x, y) = near(x, y) - filled(x, y);
  // Where there is one colour, it is in every other pixel: taps lie two pixels apart.
  const auto coloured = [&](const char* name, ImageParam& of, int width, int height) {
    Func sum(name);
    Expr value;
    for (int n = 0; n < width * height; n++) {
      const int i = n % width, j = n / width;
      const Expr term = apart(x + 2 * i + 1 - width, y + 2 * j + 1 - height) * of(i, j);
      value = n == 0 ? term : value + term;
    }
    sum(x, y) = value + filled(x, y);
    return sum;
  };
  Func beside = coloured("of_beside", inputs[3], 2, 3), below = coloured("of_below", inputs[4], 3, 2);
  Func diagonal = coloured("of_diagonal", inputs[5], 2, 2);
  const auto by_pixel = [&](const Expr& red, const Expr& beside, const Expr& below, const Expr& blue) {
    return select(y % 2 == 0, select(x % 2 == 0, red, beside), select(x % 2 == 0, below, blue));
  };
  const Expr own = near(x, y), d = diagonal(x, y), row = beside(x, y), column = below(x, y);
  // Halide 21 drops the slopes of mux.
  const Expr red = by_pixel(own, row, column, d), blue = by_pixel(d, column, row, own);
  output(x, y, c) = select(c == 0, red, c == 1, filled(x, y), blue);
  recipe.Output(output, {size[0], size[1], 3});
  Slopes slopes(recipe, output, {size[0], size[1], 3});
  std::vector<Slope> all;
  for (size_t i = 0; i < sizes.size(); i++) all.push_back(slopes.Of(recipe, inputs[i], sizes[i]));
  if (!recipe.hand) return;

  // Passes over memory, in vectors of pixels; slopes by filters are sums over strips of rows.
  const int lanes = recipe.FloatLanes();
  const auto pass = [&](Func f) {
    const Var across = f.args()[0], down = f.args()[1];
    f.vectorize(across, lanes).parallel(down);
    for (int k = 0; k < f.num_update_definitions(); k++) f.update(k).vectorize(across, lanes).parallel(down);
  };
  output.bound(c, 0, 3).unroll(c);
  pass(output);
  for (Func f : {near, candidate, response, tall, share, sums, filled, apart, beside, below, diagonal}) {
    pass(f.compute_root());
    pass(slopes.Of(f, f.num_update_definitions() - 1).compute_root());
  }
  for (Func f : {candidate, response}) f.update().reorder(x, tap.x, tap.y, k, y).unroll(tap.x).unroll(tap.y);
  for (size_t i = 1; i < all.size(); i++) {
    for (size_t d = 0; d < sizes[i].size(); d++) all[i].stored.bound(all[i].stored.args()[d], 0, sizes[i][d]);
    for (int k = 0; k < all[i].sum.num_update_definitions(); k++) {
      Func of_lanes = SumByStrips(recipe, all[i].sum, k, 16);
      if (i > 2) continue;
      for (int d = 0; d < 2; d++) of_lanes.unroll(of_lanes.args()[d]).update().unroll(of_lanes.args()[d]);
    }
  }
  slopes.Of(source).compute_root();
  all[0].sum.compute_root();
}
