#include "applications.h"

using namespace Halide;

namespace {

// The second layer of MobileNet v2.
constexpr int kBatch = 4, kIn = 32, kOut = 16, kMultiplier = 1, kConvWidth = 112, kConvHeight = 112;

struct Stages {
  Func padded{"padded"}, depthwise{"depthwise"}, pointwise{"pointwise"}, output{"output"};
  Var d{"d"}, x{"x"}, y{"y"}, b{"b"};
};

void Schedule(Stages& s, RDom& taps, RDom& mixed, const Recipe& recipe) {
  // A tile of the output in registers; the depthwise results that it sums over are computed in slices.
  const int lanes = recipe.FloatLanes();
  const bool wide = recipe.target.has_feature(Target::AVX512_Skylake);
  const int tile_d = (wide ? 1 : 2) * lanes, tile_x = wide ? 6 : 3, tile_y = wide ? 4 : 2;
  Var in_d("in_d"), in_x("in_x"), in_y("in_y");
  RVar slice("slice"), in_slice("in_slice");
  s.output.tile({s.d, s.x, s.y}, {in_d, in_x, in_y}, {tile_d, tile_x, tile_y}).vectorize(in_d).unroll(in_x).unroll(in_y);
  s.output.fuse(s.y, s.b, s.b).parallel(s.b);
  s.pointwise.compute_at(s.output, s.d).vectorize(s.d).unroll(s.x).unroll(s.y);
  s.pointwise.update().reorder(s.d, s.x, s.y, mixed, s.b).vectorize(s.d).unroll(s.x).unroll(s.y);
  s.pointwise.update().split(mixed, slice, in_slice, tile_d);
  s.depthwise.store_in(MemoryType::Stack).bound_extent(s.d, tile_d).compute_at(s.pointwise, slice).vectorize(s.d);
  s.depthwise.reorder(s.x, s.y, s.d).unroll(s.x).unroll(s.y);
  s.depthwise.update().vectorize(s.d).reorder(s.x, s.y, s.d, taps.x, taps.y, taps.z, s.b).unroll(s.x).unroll(s.y);
  s.padded.store_in(MemoryType::Stack).compute_at(s.pointwise, slice);
  s.padded.tile(s.d, s.x, in_d, in_x, lanes, 4, TailStrategy::RoundUp).vectorize(in_d).unroll(in_x);
}

}  // namespace

void DepthwiseSeparableConv(Recipe& recipe) {
  ImageParam input = recipe.Input("input", Float(32), {kIn, kConvWidth, kConvHeight, kBatch});
  ImageParam deep = recipe.Input("depthwise", Float(32), {kMultiplier, kIn, 3, 3});
  ImageParam flat = recipe.Input("pointwise", Float(32), {kOut, kIn * kMultiplier});
  ImageParam bias = recipe.Input("bias", Float(32), {kOut});
  Stages s;
  const Var &d = s.d, &x = s.x, &y = s.y, &b = s.b;
  // Not the boundary conditions of the library: no loop is to be split for them.
  const Expr inside = x >= 0 && x < input.dim(1).extent() && y >= 0 && y < input.dim(2).extent();
  const Expr near_x = clamp(x, 0, input.dim(1).max()), near_y = clamp(y, 0, input.dim(2).max());
  s.padded(d, x, y, b) = select(inside, input(d, near_x, near_y, b), 0.0f);

  const Expr multiplier = deep.dim(0).extent(), width = deep.dim(2).extent(), height = deep.dim(3).extent();
  RDom taps(0, multiplier, 0, width, 0, height), mixed(0, flat.dim(1).extent());
  s.depthwise(d, x, y, b) +=
      deep(taps.x, d, taps.y, taps.z) * s.padded(d / multiplier, x + taps.y - width / 2, y + taps.z - height / 2, b);
  s.pointwise(d, x, y, b) = bias(d);
  s.pointwise(d, x, y, b) += flat(d, mixed) * s.depthwise(mixed, x, y, b);
  s.output(d, x, y, b) = max(s.pointwise(d, x, y, b), 0.0f);
  recipe.Output(s.output, {kOut, kConvWidth, kConvHeight, kBatch});
  if (!recipe.hand) return;
  Schedule(s, taps, mixed, recipe);
  deep.dim(1).set_stride(multiplier);
  const Expr channels = flat.dim(1).extent();
  s.output.specialize(multiplier == 1 && channels == channels / 32 * 32 && width == 3 && height == 3);
}
