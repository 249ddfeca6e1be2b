// Shape from shading: unknown X, the depth of a pixel. The residuals compute shading themselves, since Ceres shares nothing
// between residuals.
#include <cmath>
#include <vector>

#include "instance.h"

namespace {

// Camera and lighting.
struct Scene {
  double f_x, f_y, u_x, u_y, light[9];
};

// Shading of pixel (i, j) less the picture's intensity there.
struct Shading {
  const Scene* scene;
  double i, j, intensity;
  // Whether the depths it needs are known; else it is 0.
  bool known;

  // From the depths of the pixel, of its left and of its upper neighbour.
  template <typename T>
  T operator()(const T& d, const T& left, const T& top) const {
    using std::sqrt;
    if (!known) return T(0.0);
    const Scene& s = *scene;
    T x = top * (d - left) / s.f_y;
    T y = left * (d - top) / s.f_x;
    T z = x * ((s.u_x - i) / s.f_x) + y * ((s.u_y - j) / s.f_y) - left * top / (s.f_x * s.f_y);
    const T square = x * x + y * y + z * z;
    if (square > 0.0) {
      const T scale = 1.0 / sqrt(square);
      x *= scale;
      y *= scale;
      z *= scale;
    }
    const double* l = s.light;
    return l[0] + l[1] * y + l[2] * z + l[3] * x + l[4] * (x * y) + l[5] * (y * z) +
           l[6] * (2.0 * z * z - x * x - y * y) + l[7] * (z * x) + l[8] * (x * x - y * y) - intensity;
  }
};

struct Fit {
  double weight, depth;

  template <typename T>
  bool operator()(const T* x, T* r) const {
    r[0] = weight * (x[0] - depth);
    return true;
  }
};

// Shading of a pixel less that of its right neighbour.
struct Right {
  double weight;
  Shading here, there;

  template <typename T>
  bool operator()(const T* x, const T* left, const T* top, const T* right, const T* right_top, T* r) const {
    r[0] = weight * (here(*x, *left, *top) - there(*right, *x, *right_top));
    return true;
  }
};

// Shading of a pixel less that of its lower neighbour.
struct Below {
  double weight;
  Shading here, there;

  template <typename T>
  bool operator()(const T* x, const T* left, const T* top, const T* below, const T* below_left, T* r) const {
    r[0] = weight * (here(*x, *left, *top) - there(*below, *below_left, *x));
    return true;
  }
};

// The surface is smooth where it is continuous.
struct Smooth {
  const Scene* scene;
  double weight, i, j;

  template <typename T>
  bool operator()(const T* x, const T* left, const T* top, const T* right, const T* below, T* r) const {
    using std::abs;
    bool continuous = true;
    for (const T* n : {left, top, right, below}) continuous = continuous && abs(*x - *n) < 0.01;
    if (!continuous) {
      r[0] = r[1] = r[2] = T(0.0);
      return true;
    }
    const Scene& s = *scene;
    const double u = (i - s.u_x) / s.f_x, v = (j - s.u_y) / s.f_y;
    const double du = 1.0 / s.f_x, dv = 1.0 / s.f_y;
    r[0] = weight * (4.0 * u * *x - (u - du) * *left - u * *top - (u + du) * *right - u * *below);
    r[1] = weight * (4.0 * v * *x - v * *left - (v - dv) * *top - v * *right - (v + dv) * *below);
    r[2] = weight * (4.0 * *x - *left - *top - *right - *below);
    return true;
  }
};

}  // namespace

Instance BuildShapeFromShading(const Arrays& arrays, Blocks) {
  const int width = arrays.Dim("W"), height = arrays.Dim("H");
  const size_t n = size_t(width) * height;
  const auto &depth = arrays.Reals("D_i", n), &image = arrays.Reals("Im", n);
  const auto &mask_r = arrays.Reals("edgeMaskR", n), &mask_c = arrays.Reals("edgeMaskC", n);
  const double w_p = std::sqrt(arrays.Param("w_p")), w_s = std::sqrt(arrays.Param("w_s"));
  const double w_g = std::sqrt(arrays.Param("w_g"));
  // Lives as long as the program: every residual points to it.
  static Scene scene;
  scene = {arrays.Param("f_x"), arrays.Param("f_y"), arrays.Param("u_x"), arrays.Param("u_y"), {}};
  for (int k = 0; k < 9; ++k) scene.light[k] = arrays.Param("L_" + std::to_string(k + 1));

  Instance instance{{arrays.Reals("X", n)}, NewProblem()};
  ceres::Problem& problem = *instance.problem;
  double* x = instance.unknowns[0].data();
  const int right = 1, below = width;

  const auto interior = [&](int i, int j) { return i >= 1 && i < width - 1 && j >= 1 && j < height - 1; };
  const auto shading = [&](int i, int j) {
    const size_t at = size_t(j) * width + i;
    Shading s{&scene, double(i), double(j), 0.0, false};
    if (!interior(i, j) || !(depth[at] > 0 && depth[at - right] > 0 && depth[at - below] > 0)) return s;
    s.intensity = 0.5 * image[at] + 0.25 * (image[at - right] + image[at - below]);
    s.known = true;
    return s;
  };
  for (int j = 0; j < height; ++j) {
    for (int i = 0; i < width; ++i) {
      const size_t at = size_t(j) * width + i;
      double* p = x + at;
      if (depth[at] > 0) {
        problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Fit, 1, 1>(new Fit{w_p, depth[at]}), nullptr, p);
      }
      if (!interior(i, j)) continue;
      const Shading here = shading(i, j);
      if (const Shading there = shading(i + 1, j); mask_r[at] != 0 && (here.known || there.known)) {
        const auto cost = new Right{w_g * mask_r[at], here, there};
        problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Right, 1, 1, 1, 1, 1, 1>(cost), nullptr, p,
                                 p - right, p - below, p + right, p + right - below);
      }
      if (const Shading there = shading(i, j + 1); mask_c[at] != 0 && (here.known || there.known)) {
        const auto cost = new Below{w_g * mask_c[at], here, there};
        problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Below, 1, 1, 1, 1, 1, 1>(cost), nullptr, p,
                                 p - right, p - below, p + below, p + below - right);
      }
      if (depth[at] > 0 && depth[at - right] > 0 && depth[at - below] > 0 && depth[at + right] > 0 &&
          depth[at + below] > 0) {
        const auto cost = new Smooth{&scene, w_s, double(i), double(j)};
        problem.AddResidualBlock(new ceres::AutoDiffCostFunction<Smooth, 3, 1, 1, 1, 1, 1>(cost), nullptr, p,
                                 p - right, p - below, p + right, p + below);
      }
    }
  }
  // Pixels without depth are excluded.
  for (size_t i = 0; i < n; ++i) {
    if (!(depth[i] > 0) && problem.HasParameterBlock(x + i)) problem.SetParameterBlockConstant(x + i);
  }
  return instance;
}
