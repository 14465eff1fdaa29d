#include "image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tvmake {
namespace {

#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
constexpr unsigned kAbsolute = R_AARCH64_ABS64, kGlobal = R_AARCH64_GLOB_DAT, kJump = R_AARCH64_JUMP_SLOT,
                   kRelative = R_AARCH64_RELATIVE, kNone = R_AARCH64_NONE;
#elif defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
constexpr unsigned kAbsolute = R_X86_64_64, kGlobal = R_X86_64_GLOB_DAT, kJump = R_X86_64_JUMP_SLOT,
                   kRelative = R_X86_64_RELATIVE, kNone = R_X86_64_NONE;
#else
#error "relocations of this processor are not known here"
#endif

// <elf.h> of some C libraries lacks what is newer than they are.
constexpr int kPackedRelative = 36, kPackedRelativeSize = 35;  // DT_RELR, DT_RELRSZ
constexpr int kGnuHash = 0x6ffffef5;                           // DT_GNU_HASH
constexpr int kAndroidRela = 0x60000011, kAndroidRelr = 0x6fffe000;

using Function = void (*)();

std::size_t Down(std::size_t address, std::size_t page) { return address / page * page; }
std::size_t Up(std::size_t address, std::size_t page) { return Down(address + page - 1, page); }

// A descriptor that is closed at the end of its block.
class File {
 public:
  explicit File(const std::string& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw LoadError(std::strerror(errno));
  }
  ~File() { close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int descriptor() const { return descriptor_; }

  std::size_t Size() const {
    struct stat facts;
    if (fstat(descriptor_, &facts) != 0) throw LoadError(std::strerror(errno));
    return static_cast<std::size_t>(facts.st_size);
  }

 private:
  int descriptor_;
};

void ReadAt(int file, void* into, std::size_t size, std::size_t offset) {
  const ssize_t got = pread(file, into, size, static_cast<off_t>(offset));
  if (got < 0 || static_cast<std::size_t>(got) != size) throw LoadError("it ends early");
}

int Protection(ElfW(Word) flags) {
  return (flags & PF_R ? PROT_READ : 0) | (flags & PF_W ? PROT_WRITE : 0) | (flags & PF_X ? PROT_EXEC : 0);
}

}  // namespace

Image::Image(const std::string& path) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  const File file(path);
  ReadSegments(file.descriptor(), file.Size());
  try {
    Map(file.descriptor());
    ReadDynamic();
    Relocate();
    Protect();
    for (std::size_t i = 0; i < symbol_count_; ++i) {
      const Symbol& symbol = symbols_[i];
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names_size_) continue;
      defined_.emplace(names_ + symbol.st_name, base_ + symbol.st_value);
    }
    Initialise();
    is_initialised_ = true;
  } catch (...) {
    Release();
    throw;
  }
}

Image::~Image() {
  if (is_initialised_) Finish();
  Release();
}

void* Image::Find(const std::string& name) const {
  const auto found = defined_.find(name);
  return found == defined_.end() ? nullptr : found->second;
}

void Image::ReadSegments(int file, std::size_t size) {
  Header header;
  ReadAt(file, &header, sizeof header, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) throw LoadError("it is not an ELF file");
  const bool is_ours = header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == kMachine;
  if (!is_ours) throw LoadError("it is for another processor");
  if (header.e_type != ET_DYN) throw LoadError("it is not a shared library");
  if (header.e_phentsize != sizeof(Segment)) throw LoadError("it is damaged: segments of another size");
  segments_.resize(header.e_phnum);
  ReadAt(file, segments_.data(), segments_.size() * sizeof(Segment), header.e_phoff);
  for (const Segment& segment : segments_) {
    if (segment.p_type == PT_DYNAMIC) dynamic_ = &segment;
    if (segment.p_type == PT_GNU_RELRO) read_only_after_ = &segment;
    if (segment.p_type == PT_TLS) throw LoadError("it has thread-local variables, which this program cannot give it");
    if (segment.p_type != PT_LOAD) continue;
    const bool is_sound = segment.p_filesz <= segment.p_memsz && segment.p_offset <= size &&
                          segment.p_filesz <= size - segment.p_offset && segment.p_memsz <= SIZE_MAX / 4 &&
                          segment.p_vaddr <= SIZE_MAX / 4;
    if (!is_sound) throw LoadError("it is damaged: a segment lies outside of it");
    if ((segment.p_flags & PF_W) && (segment.p_flags & PF_X)) throw LoadError("it has code that may be written");
    if ((segment.p_vaddr - segment.p_offset) % page_ != 0) {
      throw LoadError("it is linked for pages of less than " + std::to_string(page_) + " bytes");
    }
    extent_ = std::max<std::size_t>(extent_, segment.p_vaddr + segment.p_memsz);
  }
  if (!dynamic_ || extent_ == 0) throw LoadError("it has no dynamic section");
}

void Image::Map(int file) {
  void* reserved = mmap(nullptr, Up(extent_, page_), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) throw LoadError(std::strerror(errno));
  base_ = static_cast<char*>(reserved);
  std::size_t mapped = 0;
  for (const Segment& segment : segments_) {
    if (segment.p_type != PT_LOAD || segment.p_memsz == 0) continue;
    const std::size_t begin = Down(segment.p_vaddr, page_), end = Up(segment.p_vaddr + segment.p_memsz, page_);
    const std::size_t filled = segment.p_vaddr + segment.p_filesz;
    if (begin < mapped) throw LoadError("it is damaged, or linked for smaller pages: segments overlap");
    mapped = end;
    const int protection = Protection(segment.p_flags);
    std::size_t from_file = 0;
    if (segment.p_filesz != 0) {
      from_file = Up(filled, page_) - begin;
      const auto offset = static_cast<off_t>(segment.p_offset - (segment.p_vaddr - begin));
      if (mmap(base_ + begin, from_file, protection, MAP_PRIVATE | MAP_FIXED, file, offset) == MAP_FAILED) {
        const bool is_denied = errno == EACCES || errno == EPERM;
        throw LoadError(is_denied ? "the system does not let code run from its directory" : std::strerror(errno));
      }
      const bool has_tail = segment.p_memsz > segment.p_filesz;
      if (has_tail && (segment.p_flags & PF_W)) std::memset(base_ + filled, 0, begin + from_file - filled);
    }
    if (begin + from_file < end && mprotect(base_ + begin + from_file, end - begin - from_file, protection) != 0) {
      throw LoadError(std::strerror(errno));
    }
  }
}

void Image::ReadDynamic() {
  const auto* entry = At<const ElfW(Dyn)>(dynamic_->p_vaddr, dynamic_->p_memsz);
  const auto* end = entry + dynamic_->p_memsz / sizeof *entry;
  for (; entry != end && entry->d_tag != DT_NULL; ++entry) {
    const Word value = entry->d_un.d_val;
    if (entry->d_tag == kPackedRelative) packed_ = value;
    else if (entry->d_tag == kPackedRelativeSize) packed_size_ = value;
    else if (entry->d_tag == kGnuHash) hash_ = value;
    else if (entry->d_tag == kAndroidRela || entry->d_tag == kAndroidRelr) {
      throw LoadError("its relocations are packed for Android alone (link without --pack-dyn-relocs)");
    } else if (entry->d_tag >= 0 && entry->d_tag < DT_NUM) table_[entry->d_tag] = value;
  }
  if (table_[DT_TEXTREL] || (table_[DT_FLAGS] & DF_TEXTREL)) throw LoadError("its code has to be changed to be loaded");
  names_size_ = table_[DT_STRSZ];
  names_ = At<const char>(table_[DT_STRTAB], names_size_);
  if (names_size_ == 0 || names_[names_size_ - 1] != '\0') throw LoadError("it is damaged: its names do not end");
  symbol_count_ = CountSymbols();
  symbols_ = At<const Symbol>(table_[DT_SYMTAB], symbol_count_ * sizeof(Symbol));
}

std::size_t Image::CountSymbols() const {
  if (table_[DT_HASH]) return At<const uint32_t>(table_[DT_HASH], 8)[1];
  if (!hash_) throw LoadError("it has no table of symbols");
  const auto* head = At<const uint32_t>(hash_, 16);
  const uint32_t bucket_count = head[0], first = head[1], filter_words = head[2];
  const Word buckets_at = hash_ + 16 + Word{filter_words} * sizeof(Word);
  const auto* buckets = At<const uint32_t>(buckets_at, std::size_t{bucket_count} * 4);
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; ++i) last = std::max(last, buckets[i]);
  if (last < first) return first;  // nothing is defined; undefined ones come before
  const Word chains = buckets_at + Word{bucket_count} * 4;
  while (!(*At<const uint32_t>(chains + Word{last - first} * 4) & 1)) ++last;
  return std::size_t{last} + 1;
}

void Image::Relocate() {
  ApplyPacked(packed_ ? At<const Word>(packed_, packed_size_) : nullptr, packed_size_ / sizeof(Word));
  const std::pair<int, int> tables[] = {{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}};
  for (const auto& [table, size] : tables) {
    if (!table_[table] || !table_[size]) continue;
    const auto* relocations = At<const Relocation>(table_[table], table_[size]);
    const std::size_t count = table_[size] / sizeof(Relocation);
    for (std::size_t i = 0; i < count; ++i) Apply(relocations[i]);
  }
}

// Addresses to add the base to: an even word is one; an odd word has a bit for each of the 63 words that follow it.
void Image::ApplyPacked(const Word* words, std::size_t count) {
  constexpr std::size_t kBits = sizeof(Word) * 8 - 1;
  Word next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Word word = words[i];
    if (!(word & 1)) {
      *WordAt(word) += reinterpret_cast<Word>(base_);
      next = word + sizeof(Word);
      continue;
    }
    for (std::size_t bit = 0; (word >>= 1) != 0; ++bit) {
      if (word & 1) *WordAt(next + bit * sizeof(Word)) += reinterpret_cast<Word>(base_);
    }
    next += kBits * sizeof(Word);
  }
}

// The word of a relocation, which must be in a writable segment.
Image::Word* Image::WordAt(Word address) const {
  for (const Segment& segment : segments_) {
    const bool is_within = segment.p_type == PT_LOAD && (segment.p_flags & PF_W) && address >= segment.p_vaddr &&
                           address - segment.p_vaddr + sizeof(Word) <= segment.p_memsz;
    if (is_within) return At<Word>(address);
  }
  throw LoadError("it is damaged: a relocation is outside of its data");
}

void Image::Apply(const Relocation& relocation) {
  const auto kind = static_cast<unsigned>(ELF64_R_TYPE(relocation.r_info));
  const std::size_t index = ELF64_R_SYM(relocation.r_info);
  if (kind == kNone) return;
  Word* target = WordAt(relocation.r_offset);
  if (kind == kRelative) {
    *target = reinterpret_cast<Word>(base_) + static_cast<Word>(relocation.r_addend);
    return;
  }
  if (kind != kAbsolute && kind != kGlobal && kind != kJump) {
    throw LoadError("it has a relocation of kind " + std::to_string(kind) + ", which generated code does not need");
  }
  const auto* symbol = At<const Symbol>(table_[DT_SYMTAB] + index * sizeof(Symbol));
  *target = AddressOf(*symbol) + static_cast<Word>(relocation.r_addend);
}

Image::Word Image::AddressOf(const Symbol& symbol) const {
  if (symbol.st_name >= names_size_) throw LoadError("it is damaged: a symbol has no name");
  if (symbol.st_shndx != SHN_UNDEF) return reinterpret_cast<Word>(At<char>(symbol.st_value, 0));
  const char* name = names_ + symbol.st_name;
  if (void* found = ProgramFunction(name)) return reinterpret_cast<Word>(found);
  if (ELF64_ST_BIND(symbol.st_info) == STB_WEAK) return 0;
  throw LoadError("undefined symbol: " + std::string(name));
}

void Image::Protect() {
  if (!read_only_after_) return;
  At<char>(read_only_after_->p_vaddr, read_only_after_->p_memsz);
  const std::size_t begin = Down(read_only_after_->p_vaddr, page_);
  const std::size_t end = Down(read_only_after_->p_vaddr + read_only_after_->p_memsz, page_);
  if (end > begin && mprotect(base_ + begin, end - begin, PROT_READ) != 0) throw LoadError(std::strerror(errno));
}

void Image::Initialise() const {
  if (table_[DT_INIT]) reinterpret_cast<Function>(At<char>(table_[DT_INIT]))();
  const std::size_t count = table_[DT_INIT_ARRAYSZ] / sizeof(Function);
  if (count == 0) return;
  const auto* functions = At<const Function>(table_[DT_INIT_ARRAY], count * sizeof(Function));
  for (std::size_t i = 0; i < count; ++i) {
    if (functions[i]) functions[i]();
  }
}

void Image::Finish() const {
  const std::size_t count = table_[DT_FINI_ARRAYSZ] / sizeof(Function);
  if (count != 0) {
    const auto* functions = At<const Function>(table_[DT_FINI_ARRAY], count * sizeof(Function));
    for (std::size_t i = count; i-- > 0;) {
      if (functions[i]) functions[i]();
    }
  }
  if (table_[DT_FINI]) reinterpret_cast<Function>(At<char>(table_[DT_FINI]))();
}

void Image::Release() {
  if (base_) munmap(base_, Up(extent_, page_));
  base_ = nullptr;
}

}  // namespace tvmake
