#include "gradients.h"

using namespace Halide;

namespace {

// The slopes of the output: `w`, and 0 around it.
Func Seed(Recipe& recipe, const std::vector<int>& size) {
  return BoundaryConditions::constant_exterior(Array(recipe, "w", size), 0.0f);
}

// The output's domain as Halide 21 reads it: not by extents, but by last coordinates.
Region Domain(const std::vector<int>& size) {
  Region region;
  for (int extent : size) region.push_back({0, extent - 1});
  return region;
}

}  // namespace

std::vector<std::string> Schedules() { return {"hand", "Li2018"}; }

std::vector<Application> Applications() {
  return {
      {"convolution", Convolution},
      {"gather", Gather},
      {"atomic", Atomic},
      {"spatial_transformer", SpatialTransformer},
      {"flow_warp", FlowWarp},
      {"bilateral_slice", BilateralSlice},
      {"demosaic_learned", Demosaicking},
  };
}

ImageParam Array(Recipe& recipe, const std::string& name, const std::vector<int>& size) {
  ImageParam array = recipe.Input(name, Float(32), size);
  for (size_t d = 0; d < size.size(); d++) array.dim(static_cast<int>(d)).set_min(0);
  return array;
}

Slopes::Slopes(Recipe& recipe, Func output, const std::vector<int>& size)
    : seed(Seed(recipe, size)), derivative_(propagate_adjoints(output, seed, Domain(size))) {}

Slope Slopes::Of(Recipe& recipe, const ImageParam& input, const std::vector<int>& size, bool in_place) {
  Func sum = derivative_(Func(input)), stored = sum;
  if (recipe.hand && !in_place) {
    stored = Func("d_" + input.name());
    const std::vector<Var> at = sum.args();
    stored(at) = sum(std::vector<Expr>(at.begin(), at.end()));
  }
  recipe.Output(stored, size);
  return {stored, sum};
}

Func SumByStrips(Recipe& recipe, Func sum, int update, int rows) {
  Var strip("strip"), lane("lane");
  RVar strips("strips"), row("row"), across("across"), within("within");
  const std::vector<RVar> over = sum.rvars(update);
  const std::vector<Expr> written = sum.update_args(update);
  sum.compute_root().update(update).split(over[1], strips, row, rows);
  Func of_strips = sum.update(update).rfactor(strips, strip);
  of_strips.compute_root().update().split(over[0], across, within, recipe.FloatLanes()).parallel(strip);
  Func of_lanes = of_strips.update().rfactor(within, lane);
  of_lanes.compute_at(of_strips, strip).vectorize(lane);
  std::vector<VarOrRVar> order{lane};
  for (const Expr& at : written) {
    // A coordinate that the update fixes has no loop.
    if (const auto* v = at.as<Internal::Variable>()) order.push_back(Var(v->name));
  }
  order.insert(order.end(), {across, row});
  of_lanes.update().reorder(order).vectorize(lane);
  return of_lanes;
}
