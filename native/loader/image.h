// Shared libraries of generated code in a program that has no dynamic loader.
#ifndef TVMAKE_LOADER_IMAGE_H_
#define TVMAKE_LOADER_IMAGE_H_

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace tvmake {

// Why a library is not loaded, in one line.
class LoadError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A shared library in memory. Generated code asks for functions of the C library, of the mathematical one and of TVM,
// all of which the program holds: the names of needed libraries, and versions of symbols, are not looked at, so that it
// does not matter which C library it was linked against. Thread-local variables and text relocations are refused: TVM
// emits none.
class Image {
 public:
  // Maps the file and runs its initialisers. Throws LoadError.
  explicit Image(const std::string& path);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // The address of a symbol that the library defines; null where it does not.
  void* Find(const std::string& name) const;

 private:
  using Header = ElfW(Ehdr);
  using Segment = ElfW(Phdr);
  using Symbol = ElfW(Sym);
  using Relocation = ElfW(Rela);
  using Word = ElfW(Addr);

  void ReadSegments(int file, std::size_t size);
  void Map(int file);
  void ReadDynamic();
  void Relocate();
  void Apply(const Relocation& relocation);
  void ApplyPacked(const Word* words, std::size_t count);
  Word* WordAt(Word address) const;
  Word AddressOf(const Symbol& symbol) const;
  std::size_t CountSymbols() const;
  void Protect();
  void Initialise() const;
  void Finish() const;
  void Release();

  // `size` bytes at an address of the library's own counting. Throws LoadError where it does not lie within.
  template <typename T>
  T* At(Word address, std::size_t size = sizeof(T)) const {
    if (address > extent_ || size > extent_ - address) throw LoadError("it is damaged: an address lies outside of it");
    return reinterpret_cast<T*>(base_ + address);
  }

  std::vector<Segment> segments_;
  const Segment* dynamic_ = nullptr;
  const Segment* read_only_after_ = nullptr;

  char* base_ = nullptr;  // where the library's address 0 is
  std::size_t extent_ = 0;
  std::size_t page_ = 0;

  const char* names_ = nullptr;
  std::size_t names_size_ = 0;
  const Symbol* symbols_ = nullptr;
  std::size_t symbol_count_ = 0;
  Word table_[DT_NUM] = {};  // of the dynamic section, the tags below DT_NUM
  Word packed_ = 0, packed_size_ = 0, hash_ = 0;
  std::unordered_map<std::string, void*> defined_;
  bool is_initialised_ = false;
};

// The address of a function that the program holds for generated code; null where it holds none of that name.
void* ProgramFunction(const std::string& name);

}  // namespace tvmake

#endif  // TVMAKE_LOADER_IMAGE_H_
