#include "recipe.h"

using namespace Halide;

ImageParam Recipe::Input(const std::string& name, Type type, const std::vector<int>& size) {
  ImageParam image(type, static_cast<int>(size.size()), name);
  for (size_t i = 0; i < size.size(); i++) image.dim(static_cast<int>(i)).set_estimate(0, size[i]);
  arguments_.push_back(image);
  return image;
}

void Recipe::Output(Func f, const Region& region) {
  f.set_estimates(region);
  outputs_.push_back(f);
}

void Recipe::Output(Func f, const std::vector<int>& size) {
  Region region;
  for (int extent : size) region.push_back({0, extent});
  Output(f, region);
}

Expr Luminance(const Expr& red, const Expr& green, const Expr& blue) { return 0.299f * red + 0.587f * green + 0.114f * blue; }
