// The native methods of tvmake.Native. Every one leaves with a Java exception where something is wrong; the Java side
// has checked that packages are open, that numbers are in range, and that one thread at a time comes in.
#include <jni.h>

#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "library.h"
#include "signal_handlers.h"

namespace {

constexpr char kNative[] = "tvmake/Native", kException[] = "tvmake/PackageException";

tvmake::Library library{};
jclass exception_class = nullptr;
jmethodID exception_constructor = nullptr;

struct Opened {
  tvmake_package* package = nullptr;
  std::vector<char> copy;  // of an input from an array: Java may move those
};

Opened& Of(jlong handle) { return *reinterpret_cast<Opened*>(handle); }

// Bytes instead of a jstring: texts may hold what Java's own encoding of strings refuses.
jbyteArray BytesOf(JNIEnv* env, const std::string& text) {
  const auto size = static_cast<jsize>(text.size());
  jbyteArray bytes = env->NewByteArray(size);
  if (bytes) env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text.data()));
  return bytes;
}

std::string TextOf(JNIEnv* env, jbyteArray bytes) {
  std::string text(static_cast<std::size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()), reinterpret_cast<jbyte*>(&text[0]));
  return text;
}

std::vector<jlong> NumbersOf(JNIEnv* env, jlongArray array) {
  std::vector<jlong> numbers(static_cast<std::size_t>(env->GetArrayLength(array)));
  env->GetLongArrayRegion(array, 0, static_cast<jsize>(numbers.size()), numbers.data());
  return numbers;
}

void Throw(JNIEnv* env, int code, const std::string& text) {
  if (env->ExceptionCheck()) return;
  jbyteArray bytes = BytesOf(env, text);
  if (!bytes) return;  // no memory: Java has thrown
  jobject exception = env->NewObject(exception_class, exception_constructor, static_cast<jint>(code), bytes);
  if (exception) env->Throw(static_cast<jthrowable>(exception));
}

// Whether a function of the C interface succeeded; if not, its error is thrown.
bool Succeeded(JNIEnv* env, int code) {
  if (code == TVMAKE_OK) return true;
  Throw(env, code, library.last_error());
  return false;
}

template <typename Result, typename Work>
Result Guarded(JNIEnv* env, Result otherwise, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    Throw(env, TVMAKE_DEVICE_ERROR, error.what());
  } catch (...) {
    Throw(env, TVMAKE_DEVICE_ERROR, "an error without a text");
  }
  return otherwise;
}

jbyteArray Load(JNIEnv* env, jclass) {
  return Guarded(env, jbyteArray{}, [&] { return BytesOf(env, tvmake::LoadLibraryOnce(&library)); });
}

jlong Open(JNIEnv* env, jclass, jbyteArray directory, jbyteArray device) {
  return Guarded(env, jlong{0}, [&] {
    const std::string where = TextOf(env, directory), kind = TextOf(env, device);
    const tvmake::SignalHandlersKept handlers;  // a driver may be loaded
    auto opened = std::make_unique<Opened>();
    if (!Succeeded(env, library.load(where.c_str(), kind.c_str(), &opened->package))) return jlong{0};
    return reinterpret_cast<jlong>(opened.release());
  });
}

void Close(JNIEnv*, jclass, jlong handle) {
  Opened* opened = &Of(handle);
  library.free(opened->package);
  delete opened;
}

jlong NewSession(JNIEnv* env, jclass, jlong handle) {
  return Guarded(env, jlong{0}, [&] {
    auto opened = std::make_unique<Opened>();
    if (!Succeeded(env, library.new_session(Of(handle).package, &opened->package))) return jlong{0};
    return reinterpret_cast<jlong>(opened.release());
  });
}

jlong Function(JNIEnv* env, jclass, jlong handle, jbyteArray name) {
  return Guarded(env, jlong{0}, [&] {
    auto opened = std::make_unique<Opened>();
    if (!Succeeded(env, library.function(Of(handle).package, TextOf(env, name).c_str(), &opened->package))) return jlong{0};
    return reinterpret_cast<jlong>(opened.release());
  });
}

jint Functions(JNIEnv*, jclass, jlong handle) { return static_cast<jint>(library.functions(Of(handle).package)); }

jbyteArray FunctionName(JNIEnv* env, jclass, jlong handle, jint index) {
  const char* name = nullptr;
  const int code = library.function_name(Of(handle).package, static_cast<std::size_t>(index), &name);
  return Succeeded(env, code) ? BytesOf(env, name) : nullptr;
}

// The values of Native.INPUTS ...
enum Kind : jint { kInputs, kOutputs, kStates };

jint Count(JNIEnv*, jclass, jlong handle, jint kind) {
  const auto count = kind == kInputs ? library.inputs : kind == kOutputs ? library.outputs : library.states;
  return static_cast<jint>(count(Of(handle).package));
}

bool Describe(JNIEnv* env, jlong handle, jint kind, jint index, tvmake_tensor* tensor) {
  const auto describe = kind == kInputs ? library.input : kind == kOutputs ? library.output : library.state;
  return Succeeded(env, describe(Of(handle).package, static_cast<std::size_t>(index), tensor));
}

jbyteArray Name(JNIEnv* env, jclass, jlong handle, jint kind, jint index) {
  tvmake_tensor tensor;
  return Describe(env, handle, kind, index, &tensor) ? BytesOf(env, tensor.name) : nullptr;
}

jbyteArray DType(JNIEnv* env, jclass, jlong handle, jint kind, jint index) {
  tvmake_tensor tensor;
  return Describe(env, handle, kind, index, &tensor) ? BytesOf(env, tensor.dtype) : nullptr;
}

jlongArray ShapeOf(JNIEnv* env, const tvmake_tensor& tensor) {
  jlongArray shape = env->NewLongArray(tensor.rank);
  static_assert(sizeof(jlong) == sizeof(int64_t), "dimensions are copied without conversion");
  if (shape) env->SetLongArrayRegion(shape, 0, tensor.rank, reinterpret_cast<const jlong*>(tensor.shape));
  return shape;
}

jlongArray Shape(JNIEnv* env, jclass, jlong handle, jint kind, jint index) {
  tvmake_tensor tensor;
  return Describe(env, handle, kind, index, &tensor) ? ShapeOf(env, tensor) : nullptr;
}

void SetInput(JNIEnv* env, jlong handle, jint index, const void* data, jlongArray shape) {
  const std::vector<jlong> extents = NumbersOf(env, shape);
  Succeeded(env, library.set_input(Of(handle).package, static_cast<std::size_t>(index), data,
                                   reinterpret_cast<const int64_t*>(extents.data()), static_cast<int32_t>(extents.size())));
}

// The part of a direct buffer, or nullptr after throwing.
char* PartOf(JNIEnv* env, jobject buffer, jlong offset, jlong bytes) {
  char* address = static_cast<char*>(env->GetDirectBufferAddress(buffer));
  if (address && env->GetDirectBufferCapacity(buffer) - offset >= bytes) return address + offset;
  Throw(env, TVMAKE_INPUT_ERROR, "tensor: its buffer is not direct, or too small");
  return nullptr;
}

void SetInputFromBuffer(JNIEnv* env, jclass, jlong handle, jint index, jobject buffer, jlong offset, jlong bytes,
                        jlongArray shape) {
  Guarded(env, 0, [&] {
    if (const char* data = PartOf(env, buffer, offset, bytes)) SetInput(env, handle, index, data, shape);
    return 0;
  });
}

void SetInputFromArray(JNIEnv* env, jclass, jlong handle, jint index, jbyteArray array, jint offset, jint bytes,
                       jlongArray shape) {
  Guarded(env, 0, [&] {
    std::vector<char>& copy = Of(handle).copy;
    copy.resize(static_cast<std::size_t>(bytes));
    env->GetByteArrayRegion(array, offset, bytes, reinterpret_cast<jbyte*>(copy.data()));
    if (!env->ExceptionCheck()) SetInput(env, handle, index, copy.data(), shape);
    return 0;
  });
}

void Run(JNIEnv* env, jclass, jlong handle) {
  Guarded(env, 0, [&] {
    Succeeded(env, library.run(Of(handle).package));
    return 0;
  });
}

void Reset(JNIEnv* env, jclass, jlong handle) { Succeeded(env, library.reset(Of(handle).package)); }

jbyteArray Snapshot(JNIEnv* env, jclass, jlong handle) {
  const void* data = nullptr;
  std::size_t size = 0;
  if (!Succeeded(env, library.snapshot(Of(handle).package, &data, &size))) return nullptr;
  if (size > static_cast<std::size_t>(std::numeric_limits<jsize>::max())) {
    Throw(env, TVMAKE_INPUT_ERROR, "states: " + std::to_string(size) + " bytes are too many for a Java array");
    return nullptr;
  }
  const auto length = static_cast<jsize>(size);
  jbyteArray bytes = env->NewByteArray(length);
  if (bytes) env->SetByteArrayRegion(bytes, 0, length, static_cast<const jbyte*>(data));
  return bytes;
}

void Restore(JNIEnv* env, jclass, jlong handle, jbyteArray snapshot) {
  Guarded(env, 0, [&] {
    const std::string bytes = TextOf(env, snapshot);
    Succeeded(env, library.restore(Of(handle).package, bytes.data(), bytes.size()));
    return 0;
  });
}

// An output's value, or false after throwing.
bool ValueOf(JNIEnv* env, jlong handle, jint index, tvmake_tensor* tensor, const void** data, std::size_t* bytes) {
  return Succeeded(env, library.value(Of(handle).package, static_cast<std::size_t>(index), tensor, data, bytes));
}

jlongArray ValueShape(JNIEnv* env, jclass, jlong handle, jint index) {
  tvmake_tensor tensor;
  const void* data;
  std::size_t size;
  return ValueOf(env, handle, index, &tensor, &data, &size) ? ShapeOf(env, tensor) : nullptr;
}

// The value if it has the given size, or nullptr after throwing.
const void* ValueOfSize(JNIEnv* env, jlong handle, jint index, jlong bytes) {
  tvmake_tensor tensor;
  const void* data = nullptr;
  std::size_t size = 0;
  if (!ValueOf(env, handle, index, &tensor, &data, &size)) return nullptr;
  if (size == static_cast<std::size_t>(bytes)) return data;
  Throw(env, TVMAKE_INPUT_ERROR, std::string("output '") + tensor.name + "' has " + std::to_string(size) +
                                     " bytes, the tensor for it " + std::to_string(bytes));
  return nullptr;
}

void GetValueIntoBuffer(JNIEnv* env, jclass, jlong handle, jint index, jobject buffer, jlong offset, jlong bytes) {
  Guarded(env, 0, [&] {
    const void* value = ValueOfSize(env, handle, index, bytes);
    char* destination = value ? PartOf(env, buffer, offset, bytes) : nullptr;
    if (destination) std::memcpy(destination, value, static_cast<std::size_t>(bytes));
    return 0;
  });
}

void GetValueIntoArray(JNIEnv* env, jclass, jlong handle, jint index, jbyteArray array, jint offset, jint bytes) {
  Guarded(env, 0, [&] {
    const void* value = ValueOfSize(env, handle, index, bytes);
    if (value) env->SetByteArrayRegion(array, offset, bytes, static_cast<const jbyte*>(value));
    return 0;
  });
}

template <typename Function>
JNINativeMethod Method(const char* name, const char* signature, Function* function) {
  return {const_cast<char*>(name), const_cast<char*>(signature), reinterpret_cast<void*>(function)};
}

const JNINativeMethod kMethods[] = {
    Method("load", "()[B", Load),
    Method("open", "([B[B)J", Open),
    Method("newSession", "(J)J", NewSession),
    Method("function", "(J[B)J", Function),
    Method("functions", "(J)I", Functions),
    Method("functionName", "(JI)[B", FunctionName),
    Method("close", "(J)V", Close),
    Method("count", "(JI)I", Count),
    Method("name", "(JII)[B", Name),
    Method("dtype", "(JII)[B", DType),
    Method("shape", "(JII)[J", Shape),
    Method("setInput", "(JILjava/nio/ByteBuffer;JJ[J)V", SetInputFromBuffer),
    Method("setInput", "(JI[BII[J)V", SetInputFromArray),
    Method("run", "(J)V", Run),
    Method("reset", "(J)V", Reset),
    Method("snapshot", "(J)[B", Snapshot),
    Method("restore", "(J[B)V", Restore),
    Method("valueShape", "(JI)[J", ValueShape),
    Method("value", "(JILjava/nio/ByteBuffer;JJ)V", GetValueIntoBuffer),
    Method("value", "(JI[BII)V", GetValueIntoArray),
};

}  // namespace

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* machine, void*) {
  JNIEnv* env = nullptr;
  if (machine->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  jclass native = env->FindClass(kNative), exception = native ? env->FindClass(kException) : nullptr;
  if (!exception) return JNI_ERR;
  exception_constructor = env->GetMethodID(exception, "<init>", "(I[B)V");
  exception_class = static_cast<jclass>(env->NewGlobalRef(exception));
  const jint count = sizeof kMethods / sizeof *kMethods;
  if (!exception_constructor || !exception_class || env->RegisterNatives(native, kMethods, count) != 0) return JNI_ERR;
  return JNI_VERSION_1_6;
}
