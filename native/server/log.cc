#include "log.h"

#include <time.h>
#include <unistd.h>

#include <chrono>

namespace tvmake {

void Log(const std::string& line) {
  char moment[32];
  const time_t now = time(nullptr);
  tm local;
  localtime_r(&now, &local);
  strftime(moment, sizeof moment, "%F %T ", &local);
  const std::string text = moment + line + "\n";
  // One call, so that lines of two processes do not mix. Nobody may be listening.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace tvmake
