#include "options.h"

#include <stdlib.h>

#include <map>

namespace tvmake {

const char kUsage[] =
    R"(usage: tvmake-serve [options]

TVM's RPC server: runs code that clients send, one session at a time, each in a process of its own.
Whoever reaches its port can run code here: there are no passwords. Use it through ssh or adb.

  --host ADDRESS         where to listen (127.0.0.1)
  --allow-remote         allow an address that other machines reach
  --port P               port to listen at (9090); 0 for any
  --port-end E           try the ports from P to below E
  --tracker HOST:PORT    a tracker to register with
  --key K                this device's name there; needed with --tracker
  --custom-addr ADDRESS  the address that the tracker gives to clients; left out, the one it sees
  --session-timeout S    end sessions after this many seconds, unless their client asks for less (3600)
  --workdir D            where sessions keep their files, until they end ($TMPDIR or /tmp)
  --cache D              keep files that clients send, by digest, so that they are sent once
  --cache-mb N           how many MB to keep there; the least recently used go first (1024)
  --threads N            threads of CPU kernels; left out, one per core
  --load-library SO      something to add to the runtime; may be repeated
  --version              print which version of TVM this program is for

The first line it prints names the port. SIGTERM ends it with all it started.
Exit codes: 0 ended by a signal; 1 a value is refused; 2 usage; 3 the port or a library cannot be had.
)";

const char kTvmVersion[] = TVMAKE_TVM_VERSION;

namespace {

// "host:port", also "[::1]:9190".
void SplitAddress(const std::string& flag, const std::string& text, std::string* host, int* port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw UsageError(flag + ": expected host:port, such as 127.0.0.1:9190 (got '" + text + "')");
  }
  *host = text.substr(0, colon);
  if (host->size() > 2 && host->front() == '[' && host->back() == ']') *host = host->substr(1, host->size() - 2);
  *port = static_cast<int>(WholeNumber(flag, text.substr(colon + 1), 1, 65535));
}

double Seconds(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double value = strtod(text.c_str(), &end);
  if (text.empty() || *end || !(value > 0 && value < 1e8)) {
    throw UsageError(flag + ": expected seconds (got '" + text + "')");
  }
  return value;
}

// A number option: where its value goes, and its bounds.
struct Bounded {
  int* value;
  int least, most;
};

void CheckKey(const std::string& key) {
  for (const char c : key) {
    if (static_cast<unsigned char>(c) <= ' ' || c == ':' || c == '"' || c == '\\') {
      throw UsageError("--key: expected a name without spaces, colons, quotes and backslashes (got '" + key + "')");
    }
  }
}

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  const std::map<std::string, std::string*> texts = {{"--host", &options.host},
                                                     {"--key", &options.key},
                                                     {"--custom-addr", &options.announced_address},
                                                     {"--workdir", &options.work_directory},
                                                     {"--cache", &options.cache_directory}};
  const std::map<std::string, Bounded> numbers = {{"--port", {&options.port, 0, 65535}},
                                                  {"--port-end", {&options.port_end, 1, 65536}},
                                                  {"--threads", {&options.threads, 1, 4096}},
                                                  {"--cache-mb", {&options.cache_mb, 1, 1 << 30}}};
  CommandLine line(argc, argv);
  while (line.Next()) {
    const std::string& flag = line.flag();
    if (flag == "--help" || flag == "-h") {
      options.is_help = true;
      return options;
    }
    if (flag == "--version") {
      options.is_version = true;
      return options;
    }
    if (flag == "--allow-remote") {
      options.is_remote_allowed = true;
    } else if (const auto text = texts.find(flag); text != texts.end()) {
      *text->second = line.Value();
    } else if (const auto number = numbers.find(flag); number != numbers.end()) {
      const Bounded& option = number->second;
      *option.value = static_cast<int>(line.WholeNumber(option.least, option.most));
    } else if (flag == "--tracker") {
      SplitAddress(flag, line.Value(), &options.tracker_host, &options.tracker_port);
    } else if (flag == "--session-timeout") {
      options.session_timeout_s = Seconds(flag, line.Value());
    } else if (flag == "--load-library") {
      options.libraries.push_back(line.Value());
    } else {
      throw UsageError(flag + ": no such option; --help lists them");
    }
  }
  CheckKey(options.key);
  if (!options.tracker_host.empty() && options.key.empty()) throw UsageError("--tracker needs --key");
  if (options.port_end && options.port_end <= options.port) throw UsageError("--port-end has to be above --port");
  return options;
}

}  // namespace tvmake
