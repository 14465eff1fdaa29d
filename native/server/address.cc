#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace tvmake {
namespace {

constexpr int kBacklog = 64;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses Resolve(const std::string& host, int port, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) throw AddressError(host + ": no such host (" + gai_strerror(code) + ")");
  return Addresses(found, freeaddrinfo);
}

std::string At(const std::string& host, int port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

}  // namespace

bool IsLoopback(const std::string& host) {
  const Addresses found = Resolve(host, 0, 0);
  for (const addrinfo* address = found.get(); address; address = address->ai_next) {
    if (address->ai_family == AF_INET) {
      const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address->ai_addr);
      if (ntohl(ipv4->sin_addr.s_addr) >> 24 != 127) return false;
    } else if (address->ai_family == AF_INET6) {
      if (!IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address->ai_addr)->sin6_addr)) return false;
    } else {
      return false;
    }
  }
  return true;
}

int Listen(const std::string& host, int begin, int end, int* port) {
  std::string reason;
  for (int tried = begin; tried < end; ++tried) {
    const Addresses found = Resolve(host, tried, AI_PASSIVE);
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
      sockaddr_storage bound;
      socklen_t size = sizeof bound;
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
      *port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                                : reinterpret_cast<sockaddr_in&>(bound).sin_port);
      return fd;
    }
    reason = strerror(errno);
    if (fd >= 0) close(fd);
  }
  const std::string range = end - begin > 1 ? " to " + std::to_string(end - 1) : "";
  throw AddressError("cannot listen at " + At(host, begin) + range + " (" + reason + ")\n  give another --port");
}

int Connect(const std::string& host, int port) {
  const Addresses found = Resolve(host, port, 0);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw AddressError(strerror(errno));
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    const std::string reason = strerror(errno);
    close(fd);
    throw AddressError(reason);
  }
  return fd;
}

void SetBlocking(int fd, bool is_blocking) {
  const int flags = fcntl(fd, F_GETFL);
  fcntl(fd, F_SETFL, is_blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

std::string PeerOf(int fd) {
  sockaddr_storage peer;
  socklen_t size = sizeof peer;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&peer), size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "a client that is gone";
  }
  return std::string(host) + ":" + port;
}

}  // namespace tvmake
