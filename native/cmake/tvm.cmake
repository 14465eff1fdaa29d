# TVM as its Python wheels carry it: the target tvm (headers and runtime libraries) and TVM_VERSION.
set(TVM_ROOT "" CACHE PATH "Directory of the Python package tvm; the one that python3 finds where this is empty")
if(NOT TVM_ROOT)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import importlib.util as util; print(*util.find_spec('tvm').submodule_search_locations)"
    OUTPUT_VARIABLE tvm_root
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set_property(CACHE TVM_ROOT PROPERTY VALUE "${tvm_root}")
endif()
set(TVM_FFI_ROOT "${TVM_ROOT}/../tvm_ffi" CACHE PATH "Directory of the Python package tvm_ffi")
set(TVM_RUNTIME_LIBRARY "${TVM_ROOT}/lib/libtvm_runtime.so" CACHE FILEPATH "TVM's runtime library")
set(TVM_FFI_LIBRARY "${TVM_FFI_ROOT}/lib/libtvm_ffi.so" CACHE FILEPATH "TVM's FFI library")
file(GLOB tvm_distribution "${TVM_ROOT}/../apache_tvm-[0-9]*.dist-info")
string(REGEX MATCH "apache_tvm-([^/]*)\\.dist-info" tvm_distribution "${tvm_distribution}")
set(TVM_VERSION "${CMAKE_MATCH_1}" CACHE STRING "Version of TVM that the programs report")

find_package(Threads REQUIRED)

# src/runtime/{metadata,thread_storage_scope}.h: what a kernel's arguments, launch sizes and memory scopes mean.
add_library(tvm INTERFACE)
target_include_directories(tvm SYSTEM INTERFACE "${TVM_ROOT}/include" "${TVM_FFI_ROOT}/include" "${TVM_ROOT}/src")
target_compile_definitions(tvm INTERFACE TVMAKE_TVM_VERSION="${TVM_VERSION}")
target_link_libraries(tvm INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(NOT TVM_ARCHIVE)
  target_link_libraries(tvm INTERFACE "${TVM_RUNTIME_LIBRARY}" "${TVM_FFI_LIBRARY}")
endif()
