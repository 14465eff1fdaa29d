#include "handshake.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "address.h"
#include "log.h"
#include "protocol.h"

namespace tvmake {
namespace {

constexpr std::size_t kMostPending = 32;
constexpr double kGreetingTimeoutS = 5;  // for a client to send its key
constexpr uint32_t kLongestKey = 1024;   // bytes

// A connection whose other end lost its power is noticed after about 25 s.
void KeepAlive(int fd) {
  const int yes = 1, idle_s = 10, interval_s = 5, probes = 3;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void Send(int fd, const std::string& bytes) {
  // So few bytes fit into any socket's buffer; a client that is gone is noticed elsewhere.
  if (send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
}

}  // namespace

Handshakes::~Handshakes() {
  for (const Pending& pending : pending_) close(pending.fd);
}

void Handshakes::Accept(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    KeepAlive(fd);
    if (pending_.size() == kMostPending) {
      close(pending_.front().fd);
      pending_.erase(pending_.begin());
    }
    pending_.push_back({fd, Now() + kGreetingTimeoutS, ""});
  }
}

void Handshakes::AddTo(std::vector<pollfd>* polled) const {
  for (const Pending& pending : pending_) polled->push_back({pending.fd, POLLIN, 0});
}

double Handshakes::Deadline() const {
  double first = std::numeric_limits<double>::infinity();
  for (const Pending& pending : pending_) first = std::min(first, pending.deadline);
  return first;
}

std::optional<Client> Handshakes::Serve(const std::vector<pollfd>& polled, const std::string& match_key) {
  std::optional<Client> found;
  std::vector<Pending> left;
  for (Pending& pending : pending_) {
    const bool is_ready = std::any_of(polled.begin(), polled.end(),
                                      [&](const pollfd& entry) { return entry.fd == pending.fd && entry.revents; });
    if (is_ready && ReadGreeting(&pending)) {
      const auto client = pending.fd < 0 ? std::nullopt : Answer(pending, found ? "" : match_key);
      if (client) found = client;
    } else if (Now() > pending.deadline) {
      close(pending.fd);
    } else {
      left.push_back(std::move(pending));
    }
  }
  pending_ = std::move(left);
  return found;
}

bool Handshakes::ReadGreeting(Pending* pending) {
  char part[kLongestKey + 8];
  const ssize_t size = recv(pending->fd, part, sizeof part, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (size > 0) pending->read.append(part, static_cast<std::size_t>(size));
  const std::string& read = pending->read;
  const bool is_invalid = size <= 0 || (read.size() >= 4 && NumberAt(read, 0) != kServerMagic) ||
                          (read.size() >= 8 && (NumberAt(read, 4) == 0 || NumberAt(read, 4) > kLongestKey)) ||
                          // A client that has not been answered has nothing more to say.
                          (read.size() >= 8 && read.size() > 8 + NumberAt(read, 4));
  if (is_invalid) {
    close(pending->fd);
    pending->fd = -1;
    return true;
  }
  return read.size() >= 8 && read.size() == 8 + NumberAt(read, 4);
}

std::optional<Client> Handshakes::Answer(const Pending& pending, const std::string& match_key) {
  std::istringstream words(pending.read.substr(8));
  std::string name;
  words >> name;
  if (match_key.empty() || name != "client:" + match_key) {
    Send(pending.fd, NumberBytes(kServerMagic + kMismatch));
    if (name != kIsThere) Log("refused " + PeerOf(pending.fd) + ": its key is not the one that is due");
    close(pending.fd);
    return std::nullopt;
  }
  const std::string ours = "server:" + key_;
  Send(pending.fd, NumberBytes(kServerMagic) + NumberBytes(static_cast<uint32_t>(ours.size())) + ours);
  Client client{pending.fd, 0};
  for (std::string option; words >> option;) {
    if (option.rfind("-timeout=", 0) == 0) client.timeout_s = strtod(option.c_str() + 9, nullptr);
  }
  return client;
}

}  // namespace tvmake
