#include "npz.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "errors.h"
#include "npy.h"

namespace tvmake {
namespace {

// PKWARE's APPNOTE.TXT, 4.3 and 4.5.3.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr std::size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kLocator64Size = 20, kEnd64Size = 56;
constexpr std::size_t kLongestComment = 0xffff;
constexpr uint16_t kZip64 = 1;  // an extra field's number
constexpr uint16_t kStored = 0;
constexpr uint32_t kLongest = 0xfffffffe;  // bytes, in the plain format

// What tensor_file writes: created on Unix by version 2.0, on 1980-01-01, with mode 0644.
constexpr uint16_t kVersion = 20, kMadeBy = 3 << 8 | kVersion, kDate = 1 << 5 | 1;
constexpr uint32_t kMode = 0644u << 16;

uint64_t Number(const std::string& bytes, std::size_t at, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes.at(at + i))} << (8 * i);
  return value;
}

void Put(std::string* bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes->push_back(static_cast<char>(value >> (8 * i)));
}

uint32_t Crc32(uint32_t crc, const void* data, std::size_t size) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
      entries[i] = value;
    }
    return entries;
  }();
  crc = ~crc;
  for (const auto* at = static_cast<const uint8_t*>(data); size; --size) crc = table[(crc ^ *at++) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace

std::string MemberName(const std::string& kind, const std::string& name, int64_t number) {
  std::string text = kind + "/";
  for (const char c : name) {
    // urllib.parse.quote(name, safe="")
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && std::strchr("_.-~", c))) {
      text += c;
    } else {
      char encoded[4];
      std::snprintf(encoded, sizeof encoded, "%%%02X", static_cast<uint8_t>(c));
      text += encoded;
    }
  }
  char digits[24];
  std::snprintf(digits, sizeof digits, "/%05lld.npy", static_cast<long long>(number));
  return text + digits;
}

NpzReader::NpzReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  if (!file_) RefuseInput(path, "no such file");
  file_.seekg(0, std::ios::end);
  size_ = static_cast<uint64_t>(file_.tellg());
  const uint64_t tail_size = std::min<uint64_t>(size_, kEndSize + kLongestComment + kLocator64Size);
  const std::string tail = Bytes(size_ - tail_size, tail_size);
  std::string mark;
  Put(&mark, kEnd, 4);
  const std::size_t end = tail.rfind(mark);
  if (end == std::string::npos || tail.size() - end < kEndSize) RefuseInput(path, "is no .npz file, or truncated");
  try {
    uint64_t count = Number(tail, end + 10, 2), size = Number(tail, end + 12, 4), begin = Number(tail, end + 16, 4);
    if (end >= kLocator64Size && Number(tail, end - kLocator64Size, 4) == kLocator64) {
      const std::string end64 = Bytes(Number(tail, end - kLocator64Size + 8, 8), kEnd64Size);
      if (Number(end64, 0, 4) != kEnd64) RefuseInput(path, "is damaged");
      count = Number(end64, 32, 8), size = Number(end64, 40, 8), begin = Number(end64, 48, 8);
    }
    const std::string directory = Bytes(begin, size);
    for (std::size_t at = 0; count; --count) {
      Add(directory, at);
      at +=
          kCentralSize + Number(directory, at + 28, 2) + Number(directory, at + 30, 2) + Number(directory, at + 32, 2);
    }
  } catch (const std::out_of_range&) {
    RefuseInput(path, "is damaged");
  }
}

void NpzReader::Add(const std::string& directory, std::size_t at) {
  if (Number(directory, at, 4) != kCentral) RefuseInput(path_, "is damaged");
  const std::size_t name_size = Number(directory, at + 28, 2), extra_size = Number(directory, at + 30, 2);
  const std::string name = directory.substr(at + kCentralSize, name_size);
  if (Number(directory, at + 10, 2) != kStored) {
    RefuseInput(path_, "'" + Printable(name) + "' is compressed", "write it with numpy.savez, not savez_compressed");
  }
  Member member{Number(directory, at + 42, 4), Number(directory, at + 24, 4),
                static_cast<uint32_t>(Number(directory, at + 16, 4))};
  const std::size_t extra_end = at + kCentralSize + name_size + extra_size;
  for (std::size_t field = at + kCentralSize + name_size; field + 4 <= extra_end;) {
    const std::size_t length = Number(directory, field + 2, 2);
    if (Number(directory, field, 2) == kZip64) {
      // Only those that do not fit are there, in this order.
      std::size_t value = field + 4;
      if (member.size == 0xffffffff) member.size = Number(directory, value, 8), value += 8;
      if (Number(directory, at + 20, 4) == 0xffffffff) value += 8;
      if (member.begin == 0xffffffff) member.begin = Number(directory, value, 8);
    }
    field += 4 + length;
  }
  members_[name] = member;
}

Tensor NpzReader::Read(const std::string& name, const std::string& dtype) {
  const auto found = members_.find(name);
  if (found == members_.end()) RefuseInput(path_, "it lacks " + name);
  const Member& member = found->second;
  const std::string header = Bytes(member.begin, kLocalSize);
  if (Number(header, 0, 4) != kLocal) RefuseInput(path_, "is damaged");
  const std::string content =
      Bytes(member.begin + kLocalSize + Number(header, 26, 2) + Number(header, 28, 2), member.size);
  if (Crc32(0, content.data(), content.size()) != member.crc32) RefuseInput(path_, name + " is damaged");
  return ReadNpy(content, dtype, path_ + ": " + name);
}

std::string NpzReader::Bytes(uint64_t begin, uint64_t size) {
  if (begin > size_ || size > size_ - begin) RefuseInput(path_, "is truncated");
  std::string bytes(size, '\0');
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(begin));
  if (size && !file_.read(bytes.data(), static_cast<std::streamsize>(size))) RefuseInput(path_, "cannot be read");
  return bytes;
}

void NpzWriter::Add(const std::string& member, const Tensor& tensor) {
  const std::string header = NpyHeader(tensor);
  const uint64_t size = header.size() + tensor.data.size();
  if (written_ + size + kLocalSize + member.size() > kLongest) {
    FailDevice(path_, "outputs of more than 4 GiB do not fit into one file", "run fewer samples at once");
  }
  const uint32_t crc = Crc32(Crc32(0, header.data(), header.size()), tensor.data.data(), tensor.data.size());
  // What the member's own header and the directory have in common, from the version on.
  std::string facts;
  for (const uint16_t value : {kVersion, uint16_t{0}, kStored, uint16_t{0}, kDate}) Put(&facts, value, 2);
  for (const uint64_t value : {uint64_t{crc}, size, size}) Put(&facts, value, 4);
  Put(&facts, member.size(), 2);
  Put(&facts, 0, 2);

  std::string entry;
  Put(&entry, kCentral, 4);
  Put(&entry, kMadeBy, 2);
  entry += facts;
  Put(&entry, 0, 6);  // comment, disk, internal attributes
  Put(&entry, kMode, 4);
  Put(&entry, written_, 4);
  directory_.push_back(entry + member);

  std::string local;
  Put(&local, kLocal, 4);
  Write(local + facts + member);
  Write(header);
  file_.Write(tensor.data.data(), tensor.data.size());
  written_ += tensor.data.size();
}

void NpzWriter::Finish() {
  const uint64_t begin = written_;
  for (const std::string& entry : directory_) Write(entry);
  if (directory_.size() > 0xfffe || written_ > kLongest) {
    FailDevice(path_, "more outputs than fit into one file", "run fewer samples at once");
  }
  std::string end;
  Put(&end, kEnd, 4);
  Put(&end, 0, 4);  // disks
  Put(&end, directory_.size(), 2);
  Put(&end, directory_.size(), 2);
  Put(&end, written_ - begin, 4);
  Put(&end, begin, 4);
  Put(&end, 0, 2);  // comment
  Write(end);
  file_.Finish();
}

void NpzWriter::Write(const std::string& bytes) {
  file_.Write(bytes.data(), bytes.size());
  written_ += bytes.size();
}

}  // namespace tvmake
