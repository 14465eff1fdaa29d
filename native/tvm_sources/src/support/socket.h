// TCP sockets, by the names that the sources of TVM 0.27's RPC know them by.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <tvm/ffi/error.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tvm {
namespace support {

/// Calls `call` again for as long as a signal interrupts it.
template <typename Call>
ssize_t Uninterrupted(Call call) {
  ssize_t done = call();
  while (done < 0 && errno == EINTR) done = call();
  return done;
}

/// Where to connect to: a host's name or address, and a port.
class SockAddr {
 public:
  SockAddr(const char* host, int port) : text_(std::string(host) + ":" + std::to_string(port)) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int failed = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
    if (failed != 0) TVM_FFI_THROW(InternalError) << text_ << ": " << gai_strerror(failed);
    std::memcpy(&address, found->ai_addr, found->ai_addrlen);
    size = found->ai_addrlen;
    freeaddrinfo(found);
  }

  int ss_family() const { return address.ss_family; }
  const std::string& AsString() const { return text_; }

  sockaddr_storage address{};
  socklen_t size = 0;

 private:
  std::string text_;
};

/// A socket's descriptor. Copies are of the number: nothing is closed on destruction.
class Socket {
 public:
  using SockType = int;

  explicit Socket(SockType descriptor) : sockfd(descriptor) {}

  [[noreturn]] static void Error(const char* what) {
    TVM_FFI_THROW(InternalError) << what << ": " << std::strerror(errno);
    __builtin_unreachable();
  }

  bool BadSocket() const { return sockfd < 0; }

  void Close() {
    if (sockfd >= 0) close(sockfd);
    sockfd = -1;
  }

  SockType sockfd;
};

class TCPSocket : public Socket {
 public:
  TCPSocket() : Socket(-1) {}
  explicit TCPSocket(SockType descriptor) : Socket(descriptor) {}

  void Create(int family) {
    sockfd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sockfd < 0) Error("socket");
  }

  bool Connect(const SockAddr& place) {
    return connect(sockfd, reinterpret_cast<const sockaddr*>(&place.address), place.size) == 0;
  }

  /// Some of the bytes; -1 and errno where it fails. A peer that is gone is an error, not a signal.
  ssize_t Send(const void* data, size_t size) const {
    return Uninterrupted([&] { return send(sockfd, data, size, MSG_NOSIGNAL); });
  }
  ssize_t Recv(void* data, size_t size) const {
    return Uninterrupted([&] { return recv(sockfd, data, size, 0); });
  }

  /// All of the bytes, or as many as the connection lives for.
  size_t SendAll(const void* data, size_t size) const {
    return All(size, [&](size_t done) { return Send(static_cast<const char*>(data) + done, size - done); });
  }
  size_t RecvAll(void* data, size_t size) const {
    return All(size, [&](size_t done) { return Recv(static_cast<char*>(data) + done, size - done); });
  }

 private:
  template <typename Step>
  static size_t All(size_t size, Step step) {
    size_t done = 0;
    while (done < size) {
      const ssize_t moved = step(done);
      if (moved <= 0) break;
      done += static_cast<size_t>(moved);
    }
    return done;
  }
};

}  // namespace support
}  // namespace tvm
