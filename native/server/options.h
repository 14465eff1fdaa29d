// The command line.
#ifndef TVMAKE_SERVER_OPTIONS_H_
#define TVMAKE_SERVER_OPTIONS_H_

#include <string>
#include <vector>

#include "command_line.h"

namespace tvmake {

struct Options {
  std::string host = "127.0.0.1";
  int port = 9090, port_end = 0;  // port_end is not tried itself; 0: only `port`
  std::string tracker_host;       // empty for none
  int tracker_port = 0;
  std::string key;
  std::string announced_address;  // that the tracker gives to clients; empty: the one it sees
  double session_timeout_s = 3600;
  std::string work_directory;
  std::string cache_directory;  // empty: nothing is kept
  int cache_mb = 1024;
  int threads = 0;  // 0: as many as the runtime likes
  std::vector<std::string> libraries;
  bool is_remote_allowed = false;
  bool is_help = false, is_version = false;
};

extern const char kUsage[];

// The version of TVM that this program is made for, as its wheel spells it.
extern const char kTvmVersion[];

// Throws UsageError.
Options ParseOptions(int argc, char** argv);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_OPTIONS_H_
