// Run a package once on ones and print its first output:  run_once PACKAGE_DIRECTORY [DEVICE]
//
//   g++ -std=c++17 run_once.cc -I ../include -L ../lib -ltvmake_package -Wl,-rpath,'$ORIGIN/../lib' -o run_once
#include <tvmake/package.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_once PACKAGE_DIRECTORY [DEVICE]\n");
    return 2;
  }
  tvmake::Package package = tvmake::Package::Load(argv[1], argc > 2 ? argv[2] : "cpu");
  for (const tvmake::TensorSpec& input : package.inputs()) {
    std::size_t count = 1;
    for (const int64_t extent : input.shape) count *= extent;
    const std::vector<float> ones(count, 1.0f);
    package.SetInput(input.name, ones.data(), input.shape);
  }
  package.Run();
  const tvmake::Tensor output = package.Output(0);
  for (std::size_t i = 0; i < output.data.size() / sizeof(float); ++i) std::printf("%.7g\n", output.as<float>()[i]);
  return 0;
} catch (const tvmake::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.fault());
}
