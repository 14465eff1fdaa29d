// One client's session: a process of its own, watched from here.
#ifndef TVMAKE_SERVER_SESSION_H_
#define TVMAKE_SERVER_SESSION_H_

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "handshake.h"
#include "options.h"
#include "upload_cache.h"
#include "work_directory.h"

namespace tvmake {

class Session {
 public:
  // Start the process that serves a client, whose connection is closed at the end.
  //
  // Throws std::runtime_error if there can be none; the connection is the caller's then.
  Session(const Client& client, const Options& options, const UploadCache& cache);
  // Kills it with all it started.
  ~Session();
  Session(const Session&) = delete;

  pid_t process() const { return process_; }

  void AddTo(std::vector<pollfd>* polled) const;

  // Kill the process if its time is over, or its client is gone and it does not notice.
  void Watch(const std::vector<pollfd>& polled);

  // When to call Watch at the latest, in seconds on Now()'s clock.
  double Deadline() const;

  // The process has ended: kill what it left, and tell the client why if it cannot know.
  //
  // status: as waitpid tells it.
  // Returns the process that tells the client, 0 if there is none.
  pid_t End(int status);

 private:
  void Kill() const;

  WorkDirectory directory_;
  int fd_;
  std::string peer_;
  pid_t process_ = 0;
  double began_, timeout_s_;
  double gone_since_ = 0;  // when the client was seen to have closed its end; 0 if it has not
  bool is_late_ = false, is_killed_ = false;
};

}  // namespace tvmake

#endif  // TVMAKE_SERVER_SESSION_H_
