#include "server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "address.h"
#include "log.h"
#include "work_directory.h"

namespace tvmake {
namespace {

constexpr double kLongestWaitS = 60;

int OpenListener(const Options& options, int* port) {
  return Listen(options.host, options.port, options.port_end ? options.port_end : options.port + 1, port);
}

int OpenSignals() {
  sigset_t handled;
  sigemptyset(&handled);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) sigaddset(&handled, number);
  sigprocmask(SIG_BLOCK, &handled, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

Server::Server(const Options& options)
    : options_(options),
      cache_(options.cache_directory, uint64_t{1000000} * static_cast<uint64_t>(options.cache_mb)),
      listener_(OpenListener(options, &port_)),
      signals_(OpenSignals()),
      handshakes_(options.key),
      tracker_(options, port_) {
  RemoveAbandoned(options.work_directory);
  tracker_.Offer();
}

Server::~Server() {
  session_.reset();
  for (const pid_t reporter : reporters_) {
    kill(reporter, SIGKILL);
    waitpid(reporter, nullptr, 0);
  }
  close(listener_);
  close(signals_);
}

void Server::Run() {
  const bool has_tracker = !options_.tracker_host.empty();
  for (;;) {
    // Without a tracker, clients come unasked; they wait for the session to end.
    const bool is_open = has_tracker || !session_;
    std::vector<pollfd> polled = {{signals_, POLLIN, 0}, {is_open ? listener_ : -1, POLLIN, 0}};
    tracker_.AddTo(&polled);
    if (is_open) handshakes_.AddTo(&polled);
    if (session_) session_->AddTo(&polled);
    double wait_s = std::min(tracker_.Deadline() - Now(), kLongestWaitS);
    if (is_open) wait_s = std::min(wait_s, handshakes_.Deadline() - Now());
    if (session_) wait_s = std::min(wait_s, session_->Deadline() - Now());
    const int wait_ms = static_cast<int>(std::ceil(std::max(wait_s, 0.0) * 1000));
    if (poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR) {
      throw std::runtime_error("cannot wait for connections");
    }
    if (HasEnded()) return;
    if (session_) session_->Watch(polled);
    tracker_.Serve(polled);
    if (is_open) {
      if (const auto client = handshakes_.Serve(polled, tracker_.MatchKey())) Start(*client);
      handshakes_.Accept(listener_);
    }
  }
}

bool Server::HasEnded() {
  signalfd_siginfo signal;
  bool has_ended = false;
  while (read(signals_, &signal, sizeof signal) == sizeof signal) {
    if (signal.ssi_signo != SIGCHLD) has_ended = true;
  }
  Reap();
  return has_ended;
}

void Server::Reap() {
  int status = 0;
  while (const pid_t process = waitpid(-1, &status, WNOHANG)) {
    if (process < 0) return;
    reporters_.erase(process);
    if (session_ && session_->process() == process) {
      if (const pid_t reporter = session_->End(status)) reporters_.insert(reporter);
      session_.reset();
      tracker_.Offer();
    }
  }
}

void Server::Start(const Client& client) {
  try {
    session_ = std::make_unique<Session>(client, options_, cache_);
    tracker_.Withhold();
  } catch (const std::runtime_error& error) {
    Log(error.what());
    close(client.fd);
    tracker_.Offer();
  }
}

}  // namespace tvmake
