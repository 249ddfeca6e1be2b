// As-rigid-as-possible deformation of a mesh: unknowns Offset (3) and Angle (3, Euler) per vertex.
#include <cmath>

#include "instance.h"

namespace {

// Turns (a, b) counter-clockwise.
template <typename T, typename A, typename B>
void Turn(const T& angle, const A& a, const B& b, T* turned_a, T* turned_b) {
  using std::cos;
  using std::sin;
  const T c = cos(angle), s = sin(angle);
  *turned_a = c * a - s * b;
  *turned_b = s * a + c * b;
}

// An edge keeps its shape up to the rotation Rz Ry Rx of its first vertex.
struct Edge {
  double weight, rest[3];

  template <typename T>
  bool operator()(const T* offset, const T* angle, const T* neighbour, T* r) const {
    T x, y, z;
    Turn(angle[0], rest[1], rest[2], &y, &z);
    Turn(angle[1], T(z), rest[0], &z, &x);
    Turn(angle[2], T(x), T(y), &x, &y);
    r[0] = weight * ((offset[0] - neighbour[0]) - x);
    r[1] = weight * ((offset[1] - neighbour[1]) - y);
    r[2] = weight * ((offset[2] - neighbour[2]) - z);
    return true;
  }

  // Blocks of (Offset, Angle).
  template <typename T>
  bool operator()(const T* vertex, const T* neighbour, T* r) const {
    return (*this)(vertex, vertex + 3, neighbour, r);
  }
};

// A handle goes where it is dragged.
struct Handle {
  double weight, target[3];

  template <typename T>
  bool operator()(const T* offset, T* r) const {
    for (int i = 0; i < 3; ++i) r[i] = weight * (offset[i] - target[i]);
    return true;
  }
};

}  // namespace

Instance BuildArapMeshDeformation(const Arrays& arrays, Blocks blocks) {
  const size_t n = arrays.Dim("N");
  const auto& offset = arrays.Reals("Offset", 3 * n);
  const auto& angle = arrays.Reals("Angle", 3 * n);
  const auto& rest = arrays.Reals("UrShape", 3 * n);
  const auto& targets = arrays.Reals("Constraints", 3 * n);
  const auto &from = arrays.Integers("G.v0"), &to = arrays.Integers("G.v1");
  const double w_fit = arrays.Param("w_fitSqrt"), w_reg = arrays.Param("w_regSqrt");

  Instance instance{{std::vector<double>(6 * n)}, NewProblem()};
  const bool joint = blocks == Blocks::kElement;
  double* x = instance.unknowns[0].data();
  const auto offset_at = [&](size_t i) { return joint ? x + 6 * i : x + 3 * i; };
  const auto angle_at = [&](size_t i) { return joint ? x + 6 * i + 3 : x + 3 * n + 3 * i; };
  for (size_t i = 0; i < n; ++i) {
    std::copy_n(&offset[3 * i], 3, offset_at(i));
    std::copy_n(&angle[3 * i], 3, angle_at(i));
  }

  for (size_t i = 0; i < n; ++i) {
    const double* target = &targets[3 * i];
    if (!(target[0] >= -999999.9)) continue;
    const auto handle = new Handle{w_fit, {target[0], target[1], target[2]}};
    ceres::CostFunction* cost =
        joint ? static_cast<ceres::CostFunction*>(new ceres::AutoDiffCostFunction<Handle, 3, 6>(handle))
              : new ceres::AutoDiffCostFunction<Handle, 3, 3>(handle);
    instance.problem->AddResidualBlock(cost, nullptr, offset_at(i));
  }
  for (size_t e = 0; e < from.size(); ++e) {
    const size_t i = from[e], j = to[e];
    const auto edge = new Edge{
        w_reg, {rest[3 * i] - rest[3 * j], rest[3 * i + 1] - rest[3 * j + 1], rest[3 * i + 2] - rest[3 * j + 2]}};
    if (joint) {
      instance.problem->AddResidualBlock(new ceres::AutoDiffCostFunction<Edge, 3, 6, 6>(edge), nullptr,
                                         offset_at(i), offset_at(j));
    } else {
      instance.problem->AddResidualBlock(new ceres::AutoDiffCostFunction<Edge, 3, 3, 3, 3>(edge), nullptr,
                                         offset_at(i), angle_at(i), offset_at(j));
    }
  }
  return instance;
}
