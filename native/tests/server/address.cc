#include "address.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

using namespace tvmake;

TEST_CASE("loopback addresses are those that no other machine reaches") {
  for (const char* host : {"127.0.0.1", "127.255.0.3", "localhost", "::1"}) {
    CAPTURE(host);
    CHECK(IsLoopback(host));
  }
  for (const char* host : {"0.0.0.0", "128.0.0.1", "10.0.0.1", "::", "fe80::1", "2001:db8::1"}) {
    CAPTURE(host);
    CHECK_FALSE(IsLoopback(host));
  }
  CHECK_THROWS_AS(IsLoopback("no.such.host.invalid"), AddressError);
}

TEST_CASE("a listening socket takes connections at the port that it names") {
  int port = 0;
  const int listener = Listen("127.0.0.1", 0, 1, &port);
  REQUIRE(port > 0);
  const int client = Connect("127.0.0.1", port);
  pollfd polled = {listener, POLLIN, 0};
  REQUIRE(poll(&polled, 1, 60000) == 1);
  const int accepted = accept(listener, nullptr, nullptr);
  REQUIRE(accepted >= 0);
  CHECK(PeerOf(client) == "127.0.0.1:" + std::to_string(port));
  CHECK(PeerOf(listener) == "a client that is gone");
  for (const int fd : {listener, client, accepted}) close(fd);
}

TEST_CASE("a port in use is skipped, or named if there is no other") {
  int taken = 0;
  const int listener = Listen("127.0.0.1", 0, 1, &taken);
  int port = 0;
  try {
    close(Listen("127.0.0.1", taken, taken + 1, &port));
    FAIL("two listeners at one port");
  } catch (const AddressError& error) {
    CHECK(std::string(error.what()) ==
          "cannot listen at 127.0.0.1:" + std::to_string(taken) + " (Address already in use)\n  give another --port");
  }
  const int other = Listen("127.0.0.1", taken, taken + 50, &port);
  CHECK(port > taken);
  close(listener);
  close(other);
}
