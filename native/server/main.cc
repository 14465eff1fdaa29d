// tvmake-serve: TVM's RPC server without Python. `tvmake-serve --help` lists its options.

#include <stdlib.h>
#include <tvm/ffi/function.h>

#include <cstdio>
#include <exception>
#include <string>

#include "address.h"
#include "libraries.h"
#include "log.h"
#include "options.h"
#include "server.h"

namespace {

using namespace tvmake;

constexpr int kRefused = 1, kUsageError = 2, kNotToBeHad = 3;

int Complain(int code, const std::string& line) {
  std::fprintf(stderr, "error: %s\n", line.c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = ParseOptions(argc, argv);
    if (options.is_help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (options.is_version) {
      std::printf("tvmake-serve for apache-tvm %s\n", kTvmVersion);
      return 0;
    }
    if (!options.is_remote_allowed && !IsLoopback(options.host)) {
      return Complain(kRefused, "--host " + options.host +
                                    ": other machines reach it, and whoever does can run code here\n  come in through "
                                    "ssh or adb, or say --allow-remote");
    }
    if (!tvm::ffi::Function::GetGlobal("rpc.CreateEventDrivenServer")) {
      return Complain(kNotToBeHad, "this TVM runtime was built without RPC");
    }
    if (options.threads) setenv("TVM_NUM_THREADS", std::to_string(options.threads).c_str(), 1);
    LoadContributed();
    Server server(options);
    std::printf("listening at %s:%d\n", options.host.c_str(), server.port());
    std::fflush(stdout);
    server.Run();
    Log("stopped");
    return 0;
  } catch (const UsageError& error) {
    return Complain(kUsageError, error.what());
  } catch (const AddressError& error) {
    return Complain(kNotToBeHad, error.what());
  } catch (const std::exception& error) {
    return Complain(kNotToBeHad, error.what());
  }
}
