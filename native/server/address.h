// Addresses, and the sockets that listen at them or connect to them.
#ifndef TVMAKE_SERVER_ADDRESS_H_
#define TVMAKE_SERVER_ADDRESS_H_

#include <stdexcept>
#include <string>

namespace tvmake {

// An address that cannot be used, in one line.
class AddressError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Whether a host is this machine's loopback interface, under all its addresses. Throws AddressError.
bool IsLoopback(const std::string& host);

// Listen at the first free port of [begin, end), at any for begin 0, without ever blocking.
//
// port: which one it is.
// Throws AddressError.
int Listen(const std::string& host, int begin, int end, int* port);

// Begin to connect, without blocking. Throws AddressError.
int Connect(const std::string& host, int port);

void SetBlocking(int fd, bool is_blocking);

// "127.0.0.1:40122" for the other end of a connection.
std::string PeerOf(int fd);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_ADDRESS_H_
