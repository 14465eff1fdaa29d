#include "options.h"

#include <stdlib.h>

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
  CommandLine line;
  line.Text("--host", &options.host);
  line.Switch("--allow-remote", &options.is_remote_allowed);
  line.Number("--port", &options.port, 0, 65535);
  line.Number("--port-end", &options.port_end, 1, 65536);
  line.Value("--tracker", [&](const std::string& address) {
    SplitAddress("--tracker", address, &options.tracker_host, &options.tracker_port);
  });
  line.Text("--key", &options.key);
  line.Text("--custom-addr", &options.announced_address);
  line.Value("--session-timeout",
             [&](const std::string& text) { options.session_timeout_s = Seconds("--session-timeout", text); });
  line.Text("--workdir", &options.work_directory);
  line.Text("--cache", &options.cache_directory);
  line.Number("--cache-mb", &options.cache_mb, 1, 1 << 30);
  line.Number("--threads", &options.threads, 1, 4096);
  line.Each("--load-library", &options.libraries);

  const std::vector<std::string> given = line.Parse(argc, argv);
  if (!given.empty() && IsAboutProgram(given.back())) {
    options.is_version = given.back() == "--version";
    options.is_help = !options.is_version;
    return options;
  }
  CheckKey(options.key);
  if (!options.tracker_host.empty() && options.key.empty()) throw UsageError("--tracker needs --key");
  if (options.port_end && options.port_end <= options.port) throw UsageError("--port-end has to be above --port");
  return options;
}

}  // namespace tvmake
