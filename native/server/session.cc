#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "address.h"
#include "libraries.h"
#include "log.h"
#include "serving_loop.h"
#include "session_functions.h"
#include "tensor_functions.h"

namespace tvmake {
namespace {

constexpr double kGoneGraceS = 2;       // for a process to notice that its client is gone
constexpr int kFarewellS = 5;           // for a client to read why its session has ended
constexpr int kMostDescriptors = 1024;  // that a server could have open

// What a process forked from the server starts with: nothing of the server's but the client's connection.
void BecomeChild(int fd, pid_t server) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != server) _exit(1);  // it ended before it could take us with it
  for (const int number : {SIGTERM, SIGINT, SIGCHLD, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int other = STDERR_FILENO + 1; other < kMostDescriptors; ++other) {
    if (other != fd) close(other);
  }
}

[[noreturn]] void Serve(int fd, const std::string& directory, const Options& options, const UploadCache& cache) {
  int code = 0;
  try {
    if (chdir(directory.c_str()) != 0) throw std::runtime_error(directory + ": " + strerror(errno));
    LoadLibraries(options.libraries);
    RegisterSessionFunctions(directory, cache);
    RegisterTensorFunctions();
    SetBlocking(fd, true);
    ServeClient(fd);
  } catch (const std::exception& error) {
    // A client that goes in the middle ends it like this, too.
    Log(std::string("the session's process ended: ") + error.what());
    code = 1;
  }
  // Nothing is worth waiting for: not the thread pool, nor what a driver does at the end.
  _exit(code);
}

// Tell a client why its session has ended, and wait until it has read that: to close at once could take it away.
[[noreturn]] void TellWhy(int fd, const std::string& why) {
  alarm(kFarewellS);
  SetBlocking(fd, true);
  try {
    tvm::ffi::Function::GetGlobalRequired("rpc.ReturnException")(static_cast<int64_t>(fd), why);
  } catch (const std::exception&) {
    _exit(0);  // it is gone
  }
  shutdown(fd, SHUT_WR);
  char rest[4096];
  while (recv(fd, rest, sizeof rest, 0) > 0) {
  }
  _exit(0);
}

std::string Seconds(double seconds) {
  char text[32];
  snprintf(text, sizeof text, "%g", seconds);
  return text;
}

const char* SignalName(int number) {
  switch (number) {
    case SIGSEGV: return "SIGSEGV";
    case SIGBUS: return "SIGBUS";
    case SIGILL: return "SIGILL";
    case SIGFPE: return "SIGFPE";
    case SIGABRT: return "SIGABRT";
    case SIGKILL: return "SIGKILL";
    case SIGTERM: return "SIGTERM";
    default: return "a signal";
  }
}

}  // namespace

Session::Session(const Client& client, const Options& options, const UploadCache& cache)
    : directory_(options.work_directory),
      fd_(client.fd),
      peer_(PeerOf(client.fd)),
      began_(Now()),
      timeout_s_(client.timeout_s > 0 ? std::min(client.timeout_s, options.session_timeout_s)
                                      : options.session_timeout_s) {
  const pid_t server = getpid();
  process_ = fork();
  if (process_ == 0) {
    BecomeChild(fd_, server);
    Serve(fd_, directory_.path(), options, cache);
  }
  if (process_ < 0) throw std::runtime_error(std::string("no process for a session (") + strerror(errno) + ")");
  setpgid(process_, process_);  // here too: it may be killed before it gets to it
  Log("session of " + peer_ + " began, for " + Seconds(timeout_s_) + " s at most");
}

Session::~Session() {
  if (process_ > 0) {
    Kill();
    waitpid(process_, nullptr, 0);
  }
  close(fd_);
}

void Session::AddTo(std::vector<pollfd>* polled) const {
  // Its news would come again and again.
  if (gone_since_ == 0) polled->push_back({fd_, POLLRDHUP, 0});
}

double Session::Deadline() const {
  if (is_killed_) return std::numeric_limits<double>::infinity();
  const double over = began_ + timeout_s_;
  return gone_since_ > 0 ? std::min(over, gone_since_ + kGoneGraceS) : over;
}

void Session::Watch(const std::vector<pollfd>& polled) {
  const bool is_gone =
      std::any_of(polled.begin(), polled.end(), [&](const pollfd& entry) { return entry.fd == fd_ && entry.revents; });
  if (is_gone && gone_since_ == 0) gone_since_ = Now();
  if (is_killed_ || Now() < Deadline()) return;
  is_late_ = Now() >= began_ + timeout_s_;
  is_killed_ = true;
  Kill();
}

pid_t Session::End(int status) {
  Kill();  // what it may have started itself
  process_ = 0;
  std::string how = "ended", why;
  if (is_late_) {
    how = "took longer than " + Seconds(timeout_s_) + " s and was killed";
    // The words of TVM's own server, by which clients tell.
    why = "RPCSessionTimeoutError: Your " + Seconds(timeout_s_) +
          "s session has expired, try to increase the \"session_timeout\" value.";
  } else if (is_killed_) {
    how = "was killed, as its client is gone";
  } else if (WIFSIGNALED(status)) {
    how = std::string("ended with ") + SignalName(WTERMSIG(status));
    why = std::string("the process that ran the code ") + how;
  } else if (WEXITSTATUS(status) != 0) {
    how = "ended with code " + std::to_string(WEXITSTATUS(status));
    why = "the session " + how;
  }
  Log("session of " + peer_ + " " + how + " after " + Seconds(static_cast<int>((Now() - began_) * 100) / 100.0) + " s");
  if (why.empty() || gone_since_ > 0) return 0;
  const pid_t server = getpid();
  const pid_t reporter = fork();
  if (reporter == 0) {
    BecomeChild(fd_, server);
    TellWhy(fd_, why);
  }
  return std::max<pid_t>(reporter, 0);
}

void Session::Kill() const { kill(-process_, SIGKILL); }

}  // namespace tvmake
