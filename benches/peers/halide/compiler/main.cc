// compile-pipelines or compile-gradients FOLDER AUTOSCHEDULERS [NAME]: compiles applications ahead of time under each schedule into FOLDER, as
// APPLICATION_SCHEDULE; with NAME those whose name contains it, else those that this program did not compile yet. AUTOSCHEDULERS is the
// folder with Halide's plug-ins.
//
// FOLDER gets APPLICATION_SCHEDULE.o and beside it .seconds; then runtime.o and table.inc, which lists all objects there. A schedule that
// does not compile, or not within its time and memory, leaves .refused with the reason instead: each is compiled in a process of its own.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>

#include "recipe.h"

using namespace Halide;

namespace {

constexpr int kMaxSeconds = 900;
// Times that a schedule is compiled, of which the median is written down: once only where it takes longer than that.
constexpr int kCompiled = 3;
constexpr double kOnce = 10;
// Adams2019 takes more than 17 GB for guided upsampling, and has not ended then.
constexpr rlim_t kMaxBytes = rlim_t{8} << 30;

Target PipelineTarget() { return get_host_target().with_feature(Target::NoRuntime); }

void Autoschedule(Pipeline& pipeline, const std::string& schedule, const std::string& plugins) {
  std::string library = schedule;
  std::transform(library.begin(), library.end(), library.begin(), ::tolower);
  load_plugin(plugins + "/libautoschedule_" + library + ".so");
  pipeline.apply_autoscheduler(PipelineTarget(), AutoschedulerParams(schedule, {{"parallelism", "2"}}));
}

double Compile(const Application& application, const std::string& schedule, const std::string& plugins, const std::string& object) {
  const auto start = std::chrono::steady_clock::now();
  Recipe recipe(PipelineTarget(), schedule == "hand");
  application.describe(recipe);
  Pipeline pipeline(recipe.outputs());
  if (!recipe.hand) Autoschedule(pipeline, schedule, plugins);
  const std::string name = application.name + "_" + schedule;
  pipeline.compile_to_object(object + ".part", recipe.arguments(), name, recipe.target);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The first line of the reason in a file, all of it on standard error.
void Refuse(const std::string& stem, const std::string& reason) {
  std::ofstream(stem + ".refused") << reason.substr(0, reason.find('\n')) << "\n";
  std::fprintf(stderr, "%s is left out: %s\n", stem.c_str(), reason.c_str());
}

// Why a process failed that did not say it.
std::string Ended(int status) {
  if (!WIFSIGNALED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM) return "it takes more than " + std::to_string(kMaxSeconds) + " s";
  return std::string("the compiler was ended: ") + strsignal(WTERMSIG(status));
}

// What the process that compiles one schedule leaves: the path without suffixes.
std::string current_stem;

// Ends the process that compiles one schedule: an exception does not pass through a plug-in, which is compiled without them.
[[noreturn]] void OnException() {
  if (std::current_exception() == nullptr) std::abort();
  const rlimit memory{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &memory);
  try {
    throw;
  } catch (const Error& error) {
    Refuse(current_stem, error.what());
  } catch (const std::bad_alloc&) {
    Refuse(current_stem, "it takes more than " + std::to_string(kMaxBytes >> 30) + " GiB of memory");
  } catch (const std::exception& error) {
    Refuse(current_stem, error.what());
  }
  _exit(1);
}

// The whole life of the process that compiles one schedule.
[[noreturn]] void CompileAlone(const Application& application, const std::string& schedule, const std::string& plugins,
                               const std::string& stem) {
  current_stem = stem;
  std::set_terminate(OnException);
  alarm(kMaxSeconds);
  const rlimit memory{kMaxBytes, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &memory);
  std::vector<double> times = {Compile(application, schedule, plugins, stem + ".o")};
  while (times.size() < kCompiled && times[0] < kOnce) times.push_back(Compile(application, schedule, plugins, stem + ".o"));
  std::sort(times.begin(), times.end());
  const double seconds = times[times.size() / 2];
  std::ofstream(stem + ".seconds") << seconds << "\n";
  std::filesystem::rename(stem + ".o.part", stem + ".o");
  std::printf("%s: %.2f s\n", stem.c_str(), seconds);
  std::fflush(stdout);
  _exit(0);
}

// True if this program compiled it, or tried to.
bool IsDone(const std::string& stem) {
  const auto newer = [](const std::string& path) {
    return std::filesystem::exists(path) &&
           std::filesystem::last_write_time(path) > std::filesystem::last_write_time("/proc/self/exe");
  };
  return newer(stem + ".o") || newer(stem + ".refused");
}

void CompileAll(const std::string& folder, const std::string& plugins, const std::string& wanted) {
  for (const Application& application : Applications()) {
    for (const std::string& schedule : Schedules()) {
      const std::string name = application.name + "_" + schedule, stem = folder + "/" + name;
      if (name.find(wanted) == std::string::npos || (wanted.empty() && IsDone(stem))) continue;
      for (const char* suffix : {".o", ".refused"}) std::filesystem::remove(stem + suffix);
      const pid_t child = fork();
      if (child == 0) CompileAlone(application, schedule, plugins, stem);
      int status = 0;
      waitpid(child, &status, 0);
      if (status != 0 && !std::filesystem::exists(stem + ".refused")) Refuse(stem, Ended(status));
    }
  }
}

// Rows of `table.inc`.
void WriteTable(const std::string& folder) {
  std::ofstream table(folder + "/table.inc");
  for (const Application& application : Applications()) {
    for (const std::string& schedule : Schedules()) {
      const std::string stem = application.name + "_" + schedule;
      double seconds = 0;
      if (!std::filesystem::exists(folder + "/" + stem + ".o")) continue;
      if (!(std::ifstream(folder + "/" + stem + ".seconds") >> seconds)) continue;
      table << "PIPELINE(" << application.name << ", " << schedule << ", " << seconds << ")\n";
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3 && count != 4) {
    std::fprintf(stderr, "usage: %s FOLDER AUTOSCHEDULERS [NAME]\n", arguments[0]);
    return 2;
  }
  const std::string folder = arguments[1];
  std::filesystem::create_directories(folder);
  CompileAll(folder, arguments[2], count == 4 ? arguments[3] : "");
  compile_standalone_runtime(folder + "/runtime.o", get_host_target());
  WriteTable(folder);
  return 0;
}
