#include "arrays.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

template <typename T>
std::vector<T> ReadElements(std::istream& file, size_t count) {
  std::vector<T> elements(count);
  file.read(reinterpret_cast<char*>(elements.data()), count * sizeof(T));
  return elements;
}

template <typename T>
const T& Find(const std::map<std::string, T>& arrays, const std::string& name) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) throw std::runtime_error("the problem has no array " + name);
  return found->second;
}

}  // namespace

Arrays::Arrays(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!std::getline(file, line) || line != "sumsq problem 1") {
    throw std::runtime_error(path + ": not a problem file");
  }
  while (std::getline(file, line)) {
    std::istringstream header(line);
    std::string name, type;
    size_t count = 0;
    header >> name >> type >> count;
    if (type == "f64") {
      reals_[name] = ReadElements<double>(file, count);
    } else if (type == "i32") {
      integers_[name] = ReadElements<int32_t>(file, count);
    } else {
      throw std::runtime_error(path + ": not an array: " + line);
    }
    if (!file) throw std::runtime_error(path + ": ends within " + name);
  }
}

const std::vector<double>& Arrays::Reals(const std::string& name, size_t count) const {
  const auto& found = Find(reals_, name);
  if (found.size() != count) throw std::runtime_error(name + " has another size than its dims say");
  return found;
}

const std::vector<int32_t>& Arrays::Integers(const std::string& name) const {
  return Find(integers_, name);
}

int Arrays::Dim(const std::string& name) const { return Integers(name).at(0); }
