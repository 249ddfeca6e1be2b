// As-rigid-as-possible deformation of an image: unknowns Offset (2) and Angle per pixel.
#include <cmath>

#include "instance.h"

namespace {

// An edge keeps its shape up to the rotation of its first pixel.
struct Edge {
  double weight, rest_x, rest_y;

  template <typename T>
  bool operator()(const T* offset, const T* angle, const T* neighbour, T* r) const {
    using std::cos;
    using std::sin;
    const T c = cos(*angle), s = sin(*angle);
    r[0] = weight * ((offset[0] - neighbour[0]) - (c * rest_x - s * rest_y));
    r[1] = weight * ((offset[1] - neighbour[1]) - (s * rest_x + c * rest_y));
    return true;
  }

  // Blocks of (Offset, Angle).
  template <typename T>
  bool operator()(const T* pixel, const T* neighbour, T* r) const {
    return (*this)(pixel, pixel + 2, neighbour, r);
  }
};

// A handle goes where it is dragged.
struct Handle {
  double weight, x, y;

  template <typename T>
  bool operator()(const T* offset, T* r) const {
    r[0] = weight * (offset[0] - x);
    r[1] = weight * (offset[1] - y);
    return true;
  }
};

}  // namespace

Instance BuildImageWarping(const Arrays& arrays, Blocks blocks) {
  const int width = arrays.Dim("W"), height = arrays.Dim("H");
  const size_t n = size_t(width) * height;
  const auto& offset = arrays.Reals("Offset", 2 * n);
  const auto& angle = arrays.Reals("Angle", n);
  const auto& rest = arrays.Reals("UrShape", 2 * n);
  const auto& targets = arrays.Reals("Constraints", 2 * n);
  const auto& mask = arrays.Reals("Mask", n);
  const double w_fit = arrays.Param("w_fitSqrt"), w_reg = arrays.Param("w_regSqrt");

  Instance instance{{std::vector<double>(3 * n)}, NewProblem()};
  const bool joint = blocks == Blocks::kElement;
  double* x = instance.unknowns[0].data();
  const auto offset_at = [&](size_t i) { return joint ? x + 3 * i : x + 2 * i; };
  const auto angle_at = [&](size_t i) { return joint ? x + 3 * i + 2 : x + 2 * n + i; };
  for (size_t i = 0; i < n; ++i) {
    std::copy_n(&offset[2 * i], 2, offset_at(i));
    *angle_at(i) = angle[i];
  }

  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const size_t i = size_t(row) * width + column;
      if (mask[i] != 0) continue;
      for (const auto& [dx, dy] : kNeighbours) {
        const int to_column = column + dx, to_row = row + dy;
        if (to_column < 0 || to_column >= width || to_row < 0 || to_row >= height) continue;
        const size_t j = size_t(to_row) * width + to_column;
        if (mask[j] != 0) continue;
        const auto edge = new Edge{w_reg, rest[2 * i] - rest[2 * j], rest[2 * i + 1] - rest[2 * j + 1]};
        if (joint) {
          instance.problem->AddResidualBlock(new ceres::AutoDiffCostFunction<Edge, 2, 3, 3>(edge), nullptr,
                                             offset_at(i), offset_at(j));
        } else {
          instance.problem->AddResidualBlock(new ceres::AutoDiffCostFunction<Edge, 2, 2, 1, 2>(edge), nullptr,
                                             offset_at(i), angle_at(i), offset_at(j));
        }
      }
      if (targets[2 * i] >= 0 && targets[2 * i + 1] >= 0) {
        const auto handle = new Handle{w_fit, targets[2 * i], targets[2 * i + 1]};
        ceres::CostFunction* cost =
            joint ? static_cast<ceres::CostFunction*>(new ceres::AutoDiffCostFunction<Handle, 2, 3>(handle))
                  : new ceres::AutoDiffCostFunction<Handle, 2, 2>(handle);
        instance.problem->AddResidualBlock(cost, nullptr, offset_at(i));
      }
    }
  }
  return instance;
}
