// Memory that is taken piece by piece and given back at once, by the names that the sources of TVM 0.27's RPC know it by.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace tvm {
namespace support {

/// Pieces for values without destructors.
class Arena {
 public:
  /// Room for `count` values, which are not constructed.
  template <typename T>
  T* allocate_(size_t count = 1) {
    static_assert(alignof(T) <= alignof(std::max_align_t), "pages are aligned for ordinary types only");
    static_assert(std::is_trivially_destructible_v<T>, "no destructor is run");
    return static_cast<T*>(Take(count * sizeof(T)));
  }

  /// All pieces are free again; one page is kept for the next.
  void RecycleAll() {
    if (pages_.size() > 1) pages_.resize(1);
    if (!pages_.empty() && pages_.front().size > kPage) pages_.clear();
    used_ = 0;
  }

 private:
  struct Page {
    std::unique_ptr<std::max_align_t[]> memory;
    size_t size;
  };

  static constexpr size_t kPage = size_t{16} << 10;

  void* Take(size_t size) {
    constexpr size_t unit = sizeof(std::max_align_t);
    size = (std::max(size, size_t{1}) + unit - 1) / unit * unit;
    if (pages_.empty() || used_ + size > pages_.back().size) {
      const size_t fresh = std::max(size, kPage);
      pages_.push_back({std::make_unique<std::max_align_t[]>(fresh / unit), fresh});
      used_ = 0;
    }
    void* piece = reinterpret_cast<char*>(pages_.back().memory.get()) + used_;
    used_ += size;
    return piece;
  }

  std::vector<Page> pages_;
  size_t used_ = 0;  // of the last page
};

}  // namespace support
}  // namespace tvm
