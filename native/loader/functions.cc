// The functions that a program without a dynamic loader holds for generated code.
//
// TVM's C interface whole, and of the C and the mathematical library what LLVM and TVM emit calls of. A test compares
// the names with what the libraries of TVM's wheels offer.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "image.h"

// Each name, in alphabetical order.
#define TVMAKE_FUNCTIONS(F)                                                                                            \
  F(TVMBackendAllocWorkspace) F(TVMBackendAnyListMoveFromPackedReturn) F(TVMBackendAnyListResetItem)                   \
  F(TVMBackendAnyListSetPackedArg) F(TVMBackendFreeWorkspace) F(TVMBackendParallelBarrier)                             \
  F(TVMBackendParallelLaunch) F(TVMFFIAnyViewToOwnedAny) F(TVMFFIBacktrace) F(TVMFFIBigIntFromByteArray)               \
  F(TVMFFIBigIntGetContentByteArray) F(TVMFFIBytesFromByteArray) F(TVMFFIDataTypeFromString)                           \
  F(TVMFFIDataTypeToString) F(TVMFFIEnvCheckSignals) F(TVMFFIEnvGetDLPackManagedTensorAllocator)                       \
  F(TVMFFIEnvGetStream) F(TVMFFIEnvModLookupFromImports) F(TVMFFIEnvModRegisterContextSymbol)                          \
  F(TVMFFIEnvModRegisterSystemLibSymbol) F(TVMFFIEnvRegisterCAPI) F(TVMFFIEnvSetDLPackManagedTensorAllocator)          \
  F(TVMFFIEnvSetStream) F(TVMFFIEnvTensorAlloc) F(TVMFFIErrorCreate) F(TVMFFIErrorCreateWithCauseAndExtraContext)      \
  F(TVMFFIErrorMoveFromRaised) F(TVMFFIErrorSetRaised) F(TVMFFIErrorSetRaisedFromCStr)                                 \
  F(TVMFFIErrorSetRaisedFromCStrParts) F(TVMFFIFunctionCall) F(TVMFFIFunctionCreate) F(TVMFFIFunctionGetGlobal)        \
  F(TVMFFIFunctionSetGlobal) F(TVMFFIFunctionSetGlobalFromMethodInfo) F(TVMFFIGetCustomAllocator)                      \
  F(TVMFFIGetTypeAttrColumn) F(TVMFFIGetTypeInfo) F(TVMFFIGetVersion) F(TVMFFIHandleDeinitOnce)                        \
  F(TVMFFIHandleInitOnce) F(TVMFFIObjectCreateOpaque) F(TVMFFIObjectDecRef) F(TVMFFIObjectIncRef)                      \
  F(TVMFFISetCustomAllocator) F(TVMFFIStringFromByteArray) F(TVMFFITensorCreateUnsafeView) F(TVMFFITensorFromDLPack)   \
  F(TVMFFITensorFromDLPackVersioned) F(TVMFFITensorToDLPack) F(TVMFFITensorToDLPackVersioned)                          \
  F(TVMFFITypeGetOrAllocIndex) F(TVMFFITypeKeyToIndex) F(TVMFFITypeRegisterAttr) F(TVMFFITypeRegisterField)            \
  F(TVMFFITypeRegisterMetadata) F(TVMFFITypeRegisterMethod) F(abort) F(acos) F(acosf) F(acosh) F(acoshf) F(asin)       \
  F(asinf) F(asinh) F(asinhf) F(atan) F(atan2) F(atan2f) F(atanf) F(atanh) F(atanhf) F(bcmp) F(calloc) F(cbrt)         \
  F(cbrtf) F(ceil) F(ceilf) F(copysign) F(copysignf) F(cos) F(cosf) F(cosh) F(coshf) F(erf) F(erfc) F(erfcf) F(erff)   \
  F(exp) F(exp10) F(exp10f) F(exp2) F(exp2f) F(expf) F(expm1) F(expm1f) F(fabs) F(fabsf) F(fdim) F(fdimf) F(floor)     \
  F(floorf) F(fma) F(fmaf) F(fmax) F(fmaxf) F(fmin) F(fminf) F(fmod) F(fmodf) F(free) F(frexp) F(frexpf) F(hypot)      \
  F(hypotf) F(ldexp) F(ldexpf) F(lgamma) F(lgammaf) F(llrint) F(llrintf) F(llround) F(llroundf) F(log) F(log10)        \
  F(log10f) F(log1p) F(log1pf) F(log2) F(log2f) F(logb) F(logbf) F(logf) F(lrint) F(lrintf) F(lround) F(lroundf)       \
  F(malloc) F(memchr) F(memcmp) F(memcpy) F(memmove) F(memset) F(modf) F(modff) F(nearbyint) F(nearbyintf)             \
  F(nextafter) F(nextafterf) F(pow) F(powf) F(realloc) F(remainder) F(remainderf) F(rint) F(rintf) F(round) F(roundf)  \
  F(scalbn) F(scalbnf) F(sin) F(sincos) F(sincosf) F(sinf) F(sinh) F(sinhf) F(sqrt) F(sqrtf) F(strcmp) F(strlen)       \
  F(tan) F(tanf) F(tanh) F(tanhf) F(tgamma) F(tgammaf) F(trunc) F(truncf)

// By the name that the linker knows it by: headers would give some of them several types.
#define TVMAKE_DECLARE(name) extern "C" void tvmake_program_##name() __asm__(#name);
TVMAKE_FUNCTIONS(TVMAKE_DECLARE)

namespace tvmake {
namespace {

struct Entry {
  const char* name;
  void (*function)();
};

#define TVMAKE_ENTRY(name) {#name, tvmake_program_##name},
constexpr Entry kEntries[] = {TVMAKE_FUNCTIONS(TVMAKE_ENTRY)};

bool IsBefore(const Entry& entry, const char* name) { return std::strcmp(entry.name, name) < 0; }

}  // namespace

void* ProgramFunction(const std::string& name) {
  const Entry* found = std::lower_bound(std::begin(kEntries), std::end(kEntries), name.c_str(), IsBefore);
  return found != std::end(kEntries) && name == found->name ? reinterpret_cast<void*>(found->function) : nullptr;
}

}  // namespace tvmake
