// What the server says of itself, on standard error: a time and a line.
#ifndef TVMAKE_SERVER_LOG_H_
#define TVMAKE_SERVER_LOG_H_

#include <string>

namespace tvmake {

void Log(const std::string& line);

// Seconds on a clock that only goes forward.
double Now();

}  // namespace tvmake

#endif  // TVMAKE_SERVER_LOG_H_
