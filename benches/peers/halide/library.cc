// libpipelines.so or libgradients.so: the compiled applications behind one call. Compiled with the folder of table.inc on the include path.
#include <HalideRuntime.h>

#include <cstdio>
#include <cstring>

extern "C" {

// Dimensions of an array at most.
constexpr int kMaxRank = 6;

// An argument: an array, or a scalar with rank -1, of which `data` points to the value.
struct PipelineArgument {
  void* data;
  // halide_type_code_t and bits of an element.
  int32_t code, bits;
  int32_t rank;
  int32_t min[kMaxRank], extent[kMaxRank], stride[kMaxRank];
};

struct PipelineEntry {
  const char *application, *schedule;
  int (*call)(void**);
  // Seconds that Halide took to compile it.
  double seconds;
};

#define PIPELINE(application, schedule, seconds) int application##_##schedule##_argv(void**);
#include "table.inc"
#undef PIPELINE

static const PipelineEntry kPipelines[] = {
#define PIPELINE(application, schedule, seconds) {#application, #schedule, application##_##schedule##_argv, seconds},
#include "table.inc"
#undef PIPELINE
    {nullptr, nullptr, nullptr, 0},
};

// The pipelines; the last has no name.
const PipelineEntry* pipelines() { return kPipelines; }

static void PrintError(void*, const char* message) { std::fprintf(stderr, "%s\n", message); }

void pipelines_start(int threads) {
  halide_set_num_threads(threads);
  halide_set_error_handler(PrintError);
}

// Runs a pipeline with its arguments in the order of its description; 0 if all went well.
int pipelines_run(const PipelineEntry* pipeline, const PipelineArgument* arguments, int count) {
  constexpr int kMaxArguments = 16;
  halide_buffer_t buffers[kMaxArguments];
  halide_dimension_t dimensions[kMaxArguments][kMaxRank];
  void* pointers[kMaxArguments];
  if (count > kMaxArguments) return -1;
  for (int i = 0; i < count; i++) {
    const PipelineArgument& argument = arguments[i];
    pointers[i] = argument.data;
    if (argument.rank < 0) continue;
    for (int d = 0; d < argument.rank; d++) {
      dimensions[i][d] = halide_dimension_t(argument.min[d], argument.extent[d], argument.stride[d]);
    }
    std::memset(&buffers[i], 0, sizeof buffers[i]);
    buffers[i].host = static_cast<uint8_t*>(argument.data);
    buffers[i].type = halide_type_t(static_cast<halide_type_code_t>(argument.code), static_cast<uint8_t>(argument.bits));
    buffers[i].dimensions = argument.rank;
    buffers[i].dim = dimensions[i];
    pointers[i] = &buffers[i];
  }
  return pipeline->call(pointers);
}

}
