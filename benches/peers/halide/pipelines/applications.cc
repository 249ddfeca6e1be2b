#include "applications.h"

std::vector<Application> Applications() {
  return {
      {"blur", Blur},
      {"unsharp", Unsharp},
      {"harris", Harris},
      {"hist", Hist},
      {"bilateral_grid", BilateralGrid},
      {"local_laplacian", LocalLaplacian},
  };
}
