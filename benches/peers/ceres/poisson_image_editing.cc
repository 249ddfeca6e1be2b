// Seamless cloning: unknown X (4) per pixel, the same energy in each channel.
#include "instance.h"

namespace {

// Channels in this residual.
template <int kChannels>
struct Difference {
  double wanted[kChannels];

  template <typename T>
  bool operator()(const T* x, const T* neighbour, T* r) const {
    for (int c = 0; c < kChannels; ++c) r[c] = (x[c] - neighbour[c]) - wanted[c];
    return true;
  }
};

// Residuals of `kChannels` channels each.
template <int kChannels>
void AddDifferences(const double* wanted, double* x, double* neighbour, ceres::Problem* problem) {
  for (int c = 0; c < 4; c += kChannels) {
    const auto difference = new Difference<kChannels>;
    std::copy_n(wanted + c, kChannels, difference->wanted);
    using Cost = ceres::AutoDiffCostFunction<Difference<kChannels>, kChannels, kChannels, kChannels>;
    problem->AddResidualBlock(new Cost(difference), nullptr, x + c, neighbour + c);
  }
}

}  // namespace

Instance BuildPoissonImageEditing(const Arrays& arrays, Blocks blocks) {
  const int width = arrays.Dim("W"), height = arrays.Dim("H");
  const size_t n = size_t(width) * height;
  const auto& t = arrays.Reals("T", 4 * n);
  const auto& mask = arrays.Reals("M", n);

  Instance instance{{arrays.Reals("X", 4 * n)}, NewProblem()};
  double* x = instance.unknowns[0].data();
  const int block = blocks == Blocks::kElement ? 4 : 1;

  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const size_t i = size_t(row) * width + column;
      for (const auto& [dx, dy] : kNeighbours) {
        const int to_column = column + dx, to_row = row + dy;
        if (to_column < 0 || to_column >= width || to_row < 0 || to_row >= height) continue;
        const size_t j = size_t(to_row) * width + to_column;
        if (mask[i] != 0 && mask[j] != 0) continue;
        double wanted[4];
        for (int c = 0; c < 4; ++c) wanted[c] = t[4 * i + c] - t[4 * j + c];
        const auto add = block == 4 ? AddDifferences<4> : AddDifferences<1>;
        add(wanted, x + 4 * i, x + 4 * j, instance.problem.get());
      }
    }
  }
  // Excluded pixels stay as they are.
  for (size_t i = 0; i < n; ++i) {
    for (int c = 0; mask[i] != 0 && c < 4; c += block) {
      double* pixel = x + 4 * i + c;
      if (instance.problem->HasParameterBlock(pixel)) instance.problem->SetParameterBlockConstant(pixel);
    }
  }
  return instance;
}
