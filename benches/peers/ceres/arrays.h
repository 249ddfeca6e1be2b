// The problem as the benchmark wrote it: named arrays.
//
// The file is a line `sumsq problem 1`, then the arrays until its end. An array is a line `NAME TYPE COUNT`, with TYPE
// f64 or i32, and COUNT elements in C order as they lie in memory. Dims and indices come as i32, all else as f64; extents
// follow from the dims, which are arrays of one element.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

class Arrays {
 public:
  // Reads a file; throws std::runtime_error that names it.
  explicit Arrays(const std::string& path);

  // The arrays of that name; throw std::runtime_error if there is none, or not of `count` elements.
  const std::vector<double>& Reals(const std::string& name, size_t count) const;
  const std::vector<int32_t>& Integers(const std::string& name) const;
  // An array of one element.
  double Param(const std::string& name) const { return Reals(name, 1)[0]; }
  int Dim(const std::string& name) const;

 private:
  std::map<std::string, std::vector<double>> reals_;
  std::map<std::string, std::vector<int32_t>> integers_;
};
