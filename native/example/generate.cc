// Continue a prompt with a language model's package, greedily, and print the tokens:  generate PACKAGE_DIRECTORY STEPS ID...
//
//   g++ -std=c++17 generate.cc -I ../include -L ../lib -ltvmake_package -Wl,-rpath,'$ORIGIN/../lib' -o generate
#include <tvmake/package.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: generate PACKAGE_DIRECTORY STEPS ID...\n");
    return 2;
  }
  tvmake::Package package = tvmake::Package::Load(argv[1]);
  std::vector<int64_t> tokens;
  for (int i = 3; i < argc; ++i) tokens.push_back(std::atoll(argv[i]));
  for (int step = std::atoi(argv[2]); step > 0; --step) {
    // The whole prompt first, then one token: the package keeps the keys and values of all earlier positions.
    package.SetInput("input_ids", tokens.data(), {1, static_cast<int64_t>(tokens.size())});
    package.Run();
    const tvmake::Tensor logits = package.Output(0);
    const int64_t vocabulary = logits.shape.back();
    const float* end = logits.as<float>() + logits.data.size() / sizeof(float);
    const float* last = end - vocabulary;  // of the last position
    tokens = {std::max_element(last, end) - last};
    std::printf("%lld\n", static_cast<long long>(tokens[0]));
  }
  return 0;
} catch (const tvmake::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return static_cast<int>(error.fault());
}
