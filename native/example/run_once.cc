// Run a package once on ones (float32) or zeros, at the smallest sizes, and print its first output:  run_once PACKAGE_DIRECTORY [DEVICE]
//
//   g++ -std=c++17 run_once.cc -I ../include -L ../lib -ltvmake_package -Wl,-rpath,'$ORIGIN/../lib' -o run_once
#include <tvmake/package.h>

#include <algorithm>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: run_once PACKAGE_DIRECTORY [DEVICE]\n");
    return 2;
  }
  tvmake::Package package = tvmake::Package::Load(argv[1], argc > 2 ? argv[2] : "cpu");
  for (const tvmake::TensorSpec& input : package.inputs()) {
    std::vector<int64_t> shape = input.shape;
    std::size_t count = 1;
    for (int64_t& extent : shape) {
      if (extent < 0) extent = 1;  // a dynamic dimension
      count *= extent;
    }
    std::vector<double> data(count);  // zeros of any type
    if (input.dtype == "float32") std::fill_n(reinterpret_cast<float*>(data.data()), count, 1.0f);
    package.SetInput(input.name, static_cast<const void*>(data.data()), shape);
  }
  package.Run();
  const tvmake::Tensor output = package.Output(0);
  for (std::size_t i = 0; i < output.data.size() / sizeof(float); ++i) std::printf("%.7g\n", output.as<float>()[i]);
  return 0;
} catch (const tvmake::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.fault());
}
