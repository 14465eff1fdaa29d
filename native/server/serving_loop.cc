#include "serving_loop.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/device_api.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol.h"

namespace tvmake {
namespace {

using tvm::ffi::Any;
using tvm::ffi::Function;
using tvm::ffi::PackedArgs;
using tvm::runtime::DeviceAPI;

constexpr std::size_t kPiece = 1 << 18;  // bytes of a packet that TVM is given at once
constexpr int32_t kMostAxes = 64;

// Of rpc.CreateEventDrivenServer: what it may do, and what it answers.
constexpr int kMayReadAndWrite = 3, kIsOver = 0, kHasMoreToWrite = 2;

class Connection {
 public:
  explicit Connection(int fd) : fd_(fd) {}

  // Fill all of it; false if the connection ends before the first byte.
  bool Read(void* to, std::size_t size) const {
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got = recv(fd_, static_cast<char*>(to) + done, size - done, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw std::runtime_error(std::string("reading from the client: ") + strerror(errno));
      if (got == 0 && done == 0) return false;
      if (got == 0) throw std::runtime_error("the client left in the middle of a message");
      done += static_cast<std::size_t>(got);
    }
    return true;
  }

  // The same, where a message has begun.
  void ReadOn(void* to, std::size_t size) const {
    if (size && !Read(to, size)) throw std::runtime_error("the client left in the middle of a message");
  }

  void Write(const void* from, std::size_t size, bool has_more = false) const {
    for (std::size_t done = 0; done < size;) {
      const int flags = MSG_NOSIGNAL | (has_more ? MSG_MORE : 0);
      const ssize_t sent = send(fd_, static_cast<const char*>(from) + done, size - done, flags);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) throw std::runtime_error(std::string("writing to the client: ") + strerror(errno));
      done += static_cast<std::size_t>(sent);
    }
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

// How both kinds of copies begin, after their code; numbers are as this machine has them, as in TVM.
class Copy {
 public:
  Copy(const Connection& client, uint64_t packet_size) {
    struct {
      uint64_t data;
      DLDevice device;
      int32_t ndim;
      DLDataType dtype;
    } begin;
    static_assert(sizeof begin == 24, "the size in the protocol");
    client.ReadOn(&begin, sizeof begin);
    if (begin.ndim < 0 || begin.ndim > kMostAxes) throw std::runtime_error("the client sent no tensor");
    shape_.resize(static_cast<std::size_t>(begin.ndim));
    client.ReadOn(shape_.data(), shape_.size() * sizeof(int64_t));
    tensor_.data = reinterpret_cast<void*>(begin.data);
    tensor_.device = begin.device;
    tensor_.ndim = begin.ndim;
    tensor_.dtype = begin.dtype;
    tensor_.shape = shape_.data();
    tensor_.strides = nullptr;
    client.ReadOn(&tensor_.byte_offset, sizeof tensor_.byte_offset);
    client.ReadOn(&size_, sizeof size_);
    const uint64_t head = sizeof(int32_t) + sizeof begin + shape_.size() * sizeof(int64_t) + 2 * sizeof(uint64_t);
    rest_ = packet_size - head;
    if (packet_size < head) throw std::runtime_error("the client sent a copy that is too short");
    const uint64_t whole = tvm::ffi::GetDataSize(tensor_);
    if (size_ > whole || tensor_.byte_offset > whole - size_) {
      throw std::runtime_error("the client sent a copy that is larger than its tensor");
    }
  }

  // Bytes to copy, and bytes of the packet that are still to be read.
  uint64_t size() const { return size_; }
  uint64_t rest() const { return rest_; }

  bool IsHere() const { return tensor_.device.device_type == kDLCPU; }
  char* Bytes() const { return static_cast<char*>(tensor_.data) + tensor_.byte_offset; }

  void ToDevice(char* bytes) { Move(bytes, true); }
  void FromDevice(char* bytes) { Move(bytes, false); }

 private:
  void Move(char* bytes, bool is_to_device) {
    if (size_ != tvm::ffi::GetDataSize(tensor_)) TVM_FFI_THROW(ValueError) << "a part of a tensor cannot be copied";
    DLTensor here = tensor_;
    here.data = bytes;
    here.device = {kDLCPU, 0};
    here.byte_offset = 0;
    DeviceAPI* api = DeviceAPI::Get(tensor_.device);
    api->CopyDataFromTo(is_to_device ? &here : &tensor_, is_to_device ? &tensor_ : &here, nullptr);
    api->StreamSync(tensor_.device, nullptr);
  }

  DLTensor tensor_;
  std::vector<int64_t> shape_;
  uint64_t size_ = 0, rest_ = 0;
};

class Loop {
 public:
  explicit Loop(int fd) : client_(fd) {
    const Function send = Function::FromPacked([this](PackedArgs args, Any* result) {
      const auto* bytes = args[0].cast<TVMFFIByteArray*>();
      client_.Write(bytes->data, bytes->size);
      *result = static_cast<int64_t>(bytes->size);
    });
    tvm_ = Function::GetGlobalRequired("rpc.CreateEventDrivenServer")(send, "SockServerLoop", "").cast<Function>();
  }

  void Run() {
    uint64_t size = 0;
    while (client_.Read(&size, sizeof size)) {
      if (size == 0) continue;  // as TVM does
      int32_t code = 0;
      if (size < sizeof code) throw std::runtime_error("the client sent a message without a code");
      client_.ReadOn(&code, sizeof code);
      if (is_local_ && code == kCopyToRemote) {
        TakeIn(size);
      } else if (is_local_ && code == kCopyFromRemote) {
        GiveOut(size);
      } else if (!Pass(size, code)) {
        return;
      }
    }
  }

 private:
  // Have TVM answer a packet, of which the rest is still to be read; false if it ends the session.
  bool Pass(uint64_t size, int32_t code) {
    std::string piece(reinterpret_cast<const char*>(&size), sizeof size);
    piece.append(reinterpret_cast<const char*>(&code), sizeof code);
    uint64_t left = size - sizeof code;
    bool goes_on = true;
    do {
      const std::size_t had = piece.size();
      const std::size_t more = std::min<uint64_t>(left, kPiece);
      piece.resize(had + more);
      client_.ReadOn(&piece[had], more);
      left -= more;
      if (!has_begun_)
        is_local_ = code == kInitServer && piece.compare(had, piece.npos, kPlainInit, sizeof kPlainInit) == 0;
      has_begun_ = true;
      goes_on = Feed(piece);
      piece.clear();
    } while (left);
    return goes_on;
  }

  bool Feed(const std::string& bytes) {
    TVMFFIByteArray given{bytes.data(), bytes.size()};
    int state = tvm_(&given, kMayReadAndWrite).cast<int>();
    while (state == kHasMoreToWrite) {
      TVMFFIByteArray nothing{nullptr, 0};
      state = tvm_(&nothing, kMayReadAndWrite).cast<int>();
    }
    return state != kIsOver;
  }

  void TakeIn(uint64_t packet_size) {
    Copy copy(client_, packet_size);
    if (copy.rest() != copy.size())
      throw std::runtime_error("the client sent a copy of another size than it announced");
    if (copy.IsHere()) {
      client_.ReadOn(copy.Bytes(), copy.size());
    } else {
      std::vector<char> bytes(copy.size());
      client_.ReadOn(bytes.data(), bytes.size());
      if (!Succeeds([&] { copy.ToDevice(bytes.data()); })) return;
    }
    constexpr struct {
      uint64_t size = 12;
      int32_t code = kReturn, values = 1, type = 0;
    } kDone;
    client_.Write(&kDone, 20);
  }

  void GiveOut(uint64_t packet_size) {
    Copy copy(client_, packet_size);
    if (copy.rest()) throw std::runtime_error("the client sent a copy of another size than it announced");
    std::vector<char> bytes(copy.IsHere() ? 0 : copy.size());
    if (!copy.IsHere() && !Succeeds([&] { copy.FromDevice(bytes.data()); })) return;
    const int32_t code = kCopyAck;
    const uint64_t size = sizeof code + copy.size();
    client_.Write(&size, sizeof size, true);
    client_.Write(&code, sizeof code, true);
    client_.Write(copy.IsHere() ? copy.Bytes() : bytes.data(), copy.size());
  }

  // Do something, and send the client its error.
  template <typename Work>
  bool Succeeds(Work work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      Function::GetGlobalRequired("rpc.ReturnException")(static_cast<int64_t>(client_.fd()), error.what());
      return false;
    }
  }

  Connection client_;
  Function tvm_;
  bool has_begun_ = false;
  bool is_local_ = false;  // a session on this very device, so that tensors' addresses are this process's
};

void CallIfThere(const char* name) {
  if (const auto function = Function::GetGlobal(name)) (*function)();
}

}  // namespace

void ServeClient(int fd) {
  CallIfThere("tvm.rpc.server.start");
  Loop(fd).Run();
  CallIfThere("tvm.rpc.server.shutdown");
}

}  // namespace tvmake
