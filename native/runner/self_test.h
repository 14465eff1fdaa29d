// A package tests itself: its own samples against what the original framework made of them.
#ifndef TVMAKE_RUNNER_SELF_TEST_H_
#define TVMAKE_RUNNER_SELF_TEST_H_

#include <string>

#include "figures.h"
#include "manifest.h"
#include "virtual_machine.h"

namespace tvmake {

// Whether a package has samples to test itself by, and bounds.
bool HasSelfTest(const Manifest& manifest);

// Throws Error unless a package has samples to test itself by.
void RequireSelfTest(const Manifest& manifest, const std::string& package);

// One output of one sample in a line, as `tvmake run --self-test` prints it.
std::string SelfTestLine(int64_t sample, const std::string& output, const Figures& figures, const Goals& goals);

// Run an unpacked package's samples and print a line for each output of each. Returns whether all reach the goals.
//
// Throws Error if the samples do not fit the package.
bool RunSelfTest(VirtualMachine* machine, const Manifest& manifest, const std::string& package);

}  // namespace tvmake

#endif  // TVMAKE_RUNNER_SELF_TEST_H_
