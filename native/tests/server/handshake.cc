#include "handshake.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "address.h"
#include "protocol.h"

using namespace tvmake;

namespace {

constexpr int kPatienceMs = 60000;  // only a hang takes as long

std::string Greeting(const std::string& text) {
  return NumberBytes(kServerMagic) + NumberBytes(static_cast<uint32_t>(text.size())) + text;
}

// A server's side with a listening socket, and clients that connect to it.
class Fixture {
 public:
  Fixture() { listener_ = Listen("127.0.0.1", 0, 1, &port_); }
  ~Fixture() {
    close(listener_);
    for (const int fd : clients_) close(fd);
    if (accepted >= 0) close(accepted);
  }

  int NewClient(const std::string& bytes = "") {
    const int fd = Connect("127.0.0.1", port_);
    SetBlocking(fd, true);
    clients_.push_back(fd);
    Await(listener_);
    handshakes.Accept(listener_);
    Send(fd, bytes);
    return fd;
  }

  void Send(int fd, const std::string& bytes) {
    if (!bytes.empty()) CHECK(send(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }

  // Wait until something has come, and serve it; whether a client was found.
  std::optional<Client> Serve(const std::string& match_key = "key") {
    std::vector<pollfd> polled;
    handshakes.AddTo(&polled);
    REQUIRE(poll(polled.data(), polled.size(), kPatienceMs) > 0);
    const std::optional<Client> client = handshakes.Serve(polled, match_key);
    if (client) accepted = client->fd;
    return client;
  }

  // All that the server sends until it closes the connection, or `size` bytes.
  static std::string Received(int fd, std::size_t size) {
    std::string bytes(size, '\0');
    const ssize_t count = recv(fd, bytes.data(), size, MSG_WAITALL);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return bytes;
  }

  static void Await(int fd) {
    pollfd polled = {fd, POLLIN, 0};
    REQUIRE(poll(&polled, 1, kPatienceMs) == 1);
  }

  Handshakes handshakes{"board"};
  int accepted = -1;

 private:
  int listener_ = -1, port_ = 0;
  std::vector<int> clients_;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a client with the key is answered and handed over") {
  const int fd = NewClient(Greeting("client:key -timeout=2.5"));
  const auto client = Serve();
  REQUIRE(client.has_value());
  CHECK(client->timeout_s == 2.5);
  CHECK(Received(fd, 20) == NumberBytes(kServerMagic) + NumberBytes(12) + "server:board");
}

TEST_CASE_FIXTURE(Fixture, "a greeting may come in pieces") {
  const int fd = NewClient();
  const std::string greeting = Greeting("client:key");
  for (std::size_t at = 0; at + 1 < greeting.size(); ++at) {
    Send(fd, greeting.substr(at, 1));
    CHECK_FALSE(Serve().has_value());
  }
  Send(fd, greeting.substr(greeting.size() - 1));
  CHECK(Serve().has_value());
}

TEST_CASE_FIXTURE(Fixture, "another key is refused, and so is every key while there is a session") {
  const int wrong = NewClient(Greeting("client:other"));
  CHECK_FALSE(Serve().has_value());
  CHECK(Received(wrong, 8) == NumberBytes(kServerMagic + kMismatch));
  const int late = NewClient(Greeting("client:key"));
  CHECK_FALSE(Serve("").has_value());
  CHECK(Received(late, 8) == NumberBytes(kServerMagic + kMismatch));
}

TEST_CASE_FIXTURE(Fixture, "nonsense is closed without an answer") {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n"), NumberBytes(kServerMagic) + NumberBytes(0),
        NumberBytes(kServerMagic) + NumberBytes(0xffffffff), NumberBytes(kServerMagic) + NumberBytes(1025),
        Greeting("client:key") + "more", std::string(8, '\0')}) {
    const int fd = NewClient(bytes);
    CHECK_FALSE(Serve().has_value());
    CHECK(Received(fd, 8) == "");
  }
}

TEST_CASE_FIXTURE(Fixture, "connections that stay silent do not crowd out others") {
  for (int i = 0; i < 100; ++i) NewClient();
  std::vector<pollfd> polled;
  handshakes.AddTo(&polled);
  CHECK(polled.size() == 32);
  NewClient(Greeting("client:key"));
  CHECK(Serve().has_value());
}
