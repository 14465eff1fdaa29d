// Numbers and bytes of TVM's RPC and tracker protocols (tvm/rpc/base.py); all numbers are little-endian.
#ifndef TVMAKE_SERVER_PROTOCOL_H_
#define TVMAKE_SERVER_PROTOCOL_H_

#include <cstdint>
#include <string>

namespace tvmake {

constexpr uint32_t kServerMagic = 0xff271, kTrackerMagic = 0x2f271;
constexpr uint32_t kMismatch = 2;  // added to the magic
constexpr int kPut = 3, kUpdateInfo = 5, kGetPendingKeys = 7;

// Kinds of packets, and what a client begins with that wants nothing but this device's own session: the protocol's
// version with its length, and no arguments (tvm/src/runtime/rpc/minrpc/rpc_reference.h).
constexpr int32_t kInitServer = 2, kReturn = 4, kCopyFromRemote = 6, kCopyToRemote = 7, kCopyAck = 8;
constexpr char kPlainInit[] = {5, 0, 0, 0, 0, 0, 0, 0, '0', '.', '8', '.', '0', 0, 0, 0, 0};

// What tvmake asks a server only to see that it is there (tvmake/device/rpc/tracker.py).
constexpr char kIsThere[] = "client:tvmake-is-there";

inline std::string NumberBytes(uint32_t number) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  return bytes;
}

inline uint32_t NumberAt(const std::string& bytes, std::size_t at) {
  uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number |= uint32_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
  return number;
}

}  // namespace tvmake

#endif  // TVMAKE_SERVER_PROTOCOL_H_
