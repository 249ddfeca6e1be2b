#include "applications.h"

std::vector<Application> Applications() {
  return {
      {"blur", Blur},
      {"unsharp", Unsharp},
      {"harris", Harris},
      {"hist", Hist},
      {"bilateral_grid", BilateralGrid},
      {"local_laplacian", LocalLaplacian},
      {"interpolate", Interpolate},
      {"stencil_chain", StencilChain},
      {"iir_blur", IirBlur},
      {"max_filter", MaxFilter},
      {"nl_means", NlMeans},
      {"camera_pipe", CameraPipe},
  };
}
