#include "npy.h"

#include <cstdlib>
#include <cstring>

#include "errors.h"
#include "virtual_machine.h"

namespace tvmake {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicSize = 6;
constexpr std::size_t kAlignment = 64;  // numpy.lib.format.ARRAY_ALIGN

struct Name {
  const char* dtype;
  const char* descr;
};
constexpr Name kNames[] = {{"bool", "|b1"},    {"int8", "|i1"},    {"int16", "<i2"},   {"int32", "<i4"},
                           {"int64", "<i8"},   {"uint8", "|u1"},   {"uint16", "<u2"},  {"uint32", "<u4"},
                           {"uint64", "<u8"},  {"float16", "<f2"}, {"float32", "<f4"}, {"float64", "<f8"},
                           {"bfloat16", "<V2"}};

std::string DescrOf(const std::string& dtype) {
  for (const Name& name : kNames) {
    if (dtype == name.dtype) return name.descr;
  }
  return "|V1";  // 8-bit floats
}

// The type an array has; empty when it is none of ours.
std::string DtypeOf(const std::string& descr, const std::string& expected) {
  if (descr.size() < 2) return "";
  if (descr[1] == 'V') {
    const std::string raw = DescrOf(expected);
    return raw.substr(1) == descr.substr(1) ? expected : "";
  }
  for (const Name& name : kNames) {
    // numpy writes = nowhere and | for single bytes; others may not.
    if (descr == name.descr || (name.descr[0] == '|' && descr.substr(1) == name.descr + 1)) return name.dtype;
  }
  return "";
}

// The text between two marks; empty when there is none.
std::string Between(const std::string& text, const std::string& begin, char end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "";
  const std::size_t to = text.find(end, from + begin.size());
  return to == std::string::npos ? "" : text.substr(from + begin.size(), to - from - begin.size());
}

}  // namespace

Tensor ReadNpy(const std::string& content, const std::string& dtype, const std::string& where) {
  const auto damaged = [&] { RefuseInput(where, "is damaged, or no .npy array"); };
  if (content.size() < 12 || content.compare(0, kMagicSize, kMagic, kMagicSize) != 0) damaged();
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(static_cast<uint8_t>(content[at])); };
  const bool is_first = byte(6) == 1;
  const std::size_t begin = is_first ? 10 : 12;
  const std::size_t size = byte(8) | byte(9) << 8 | (is_first ? 0 : byte(10) << 16 | byte(11) << 24);
  if (size > content.size() - begin) damaged();
  const std::string header = content.substr(begin, size);

  Tensor tensor;
  const std::string descr = Between(header, "'descr': '", '\'');
  tensor.dtype = DtypeOf(descr, dtype);
  if (tensor.dtype.empty()) {
    RefuseInput(where, "has numpy's type '" + Printable(descr) + "', the package takes " + dtype);
  }
  if (header.find("'fortran_order': False") == std::string::npos) {
    RefuseInput(where, "is stored column by column", "save numpy.ascontiguousarray of it");
  }
  const std::string shape = Between(header, "'shape': (", ')');
  for (const char* at = shape.c_str(); *at;) {
    char* end = nullptr;
    const long long extent = std::strtoll(at, &end, 10);
    if (end == at || extent < 0) damaged();
    tensor.shape.push_back(extent);
    at = end + std::strspn(end, ", ");
  }
  const std::size_t bytes = BytesOf(tensor.dtype, tensor.shape);
  if (content.size() - begin - size != bytes) damaged();
  tensor.data.assign(content.end() - static_cast<std::ptrdiff_t>(bytes), content.end());
  return tensor;
}

std::string NpyHeader(const Tensor& tensor) {
  std::string shape;
  for (const int64_t extent : tensor.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(extent);
  if (tensor.shape.size() == 1) shape += ",";
  std::string header = "{'descr': '" + DescrOf(tensor.dtype) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  // As numpy does: room for the first extent to grow to 21 digits, then the alignment.
  if (!tensor.shape.empty()) header.append(21 - std::to_string(tensor.shape[0]).size(), ' ');
  const std::size_t unpadded = kMagicSize + 4 + header.size() + 1;
  header.append(kAlignment - unpadded % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic, kMagicSize);
  bytes += '\x01';
  bytes += '\x00';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header;
}

}  // namespace tvmake
