// The C interface's own time for what Overhead.java times in Java.
#include <jni.h>
#include <tvmake/package_c.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

tvmake_package* package = nullptr;
std::vector<char> given, taken;  // outside of Java's heap, as a C program has them

void Check(int code) {
  if (code == TVMAKE_OK) return;
  std::fprintf(stderr, "%s\n", tvmake_last_error());
  std::exit(1);
}

jlong Since(Clock::time_point began) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count();
}

}  // namespace

extern "C" JNIEXPORT jlong JNICALL Java_Overhead_open(JNIEnv* env, jclass, jstring directory) {
  const char* path = env->GetStringUTFChars(directory, nullptr);
  Check(tvmake_package_load(path, nullptr, &package));
  env->ReleaseStringUTFChars(directory, path);
  return 1;
}

extern "C" JNIEXPORT jlong JNICALL Java_Overhead_run(JNIEnv* env, jclass, jlong, jbyteArray input) {
  given.resize(static_cast<size_t>(env->GetArrayLength(input)));
  env->GetByteArrayRegion(input, 0, static_cast<jsize>(given.size()), reinterpret_cast<jbyte*>(given.data()));
  tvmake_tensor spec, value;
  const void* data;
  size_t bytes;
  Check(tvmake_package_input(package, 0, &spec));
  taken.resize(1 << 24);
  const auto began = Clock::now();
  Check(tvmake_package_set_input(package, 0, given.data(), spec.shape, spec.rank));
  Check(tvmake_package_run(package));
  Check(tvmake_package_value(package, 0, &value, &data, &bytes));
  std::memcpy(taken.data(), data, bytes);
  return Since(began);
}

extern "C" JNIEXPORT jlong JNICALL Java_Overhead_copy(JNIEnv*, jclass, jint bytes) {
  static std::vector<char> from, to;
  from.resize(static_cast<size_t>(bytes), 1);
  to.resize(static_cast<size_t>(bytes));
  const auto began = Clock::now();
  std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
  asm volatile("" : : "r"(to.data()) : "memory");
  return Since(began);
}
