// Where a session keeps its files.
#ifndef TVMAKE_SERVER_WORK_DIRECTORY_H_
#define TVMAKE_SERVER_WORK_DIRECTORY_H_

#include <string>

namespace tvmake {

// A new directory that is removed with all it holds.
class WorkDirectory {
 public:
  // parent: where to make it; empty for $TMPDIR or /tmp.
  // Throws std::runtime_error if it cannot be made.
  explicit WorkDirectory(const std::string& parent);
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Remove directories of killed servers. Throws std::runtime_error if `parent` is not a directory.
void RemoveAbandoned(const std::string& parent);

}  // namespace tvmake

#endif  // TVMAKE_SERVER_WORK_DIRECTORY_H_
