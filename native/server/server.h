// The server: who may come next, who is being served, and when that ends.
#ifndef TVMAKE_SERVER_SERVER_H_
#define TVMAKE_SERVER_SERVER_H_

#include <memory>
#include <set>

#include "handshake.h"
#include "options.h"
#include "session.h"
#include "tracker.h"
#include "upload_cache.h"

namespace tvmake {

// One thread that never blocks, whatever clients, trackers and sessions do.
class Server {
 public:
  // Throws AddressError or std::runtime_error if the port or a directory cannot be had.
  explicit Server(const Options& options);
  ~Server();

  int port() const { return port_; }

  // Serve until SIGTERM or SIGINT; sessions are ended then.
  void Run();

 private:
  bool HasEnded();  // takes in signals; whether one of them asks for the end
  void Reap();
  void Start(const Client& client);

  const Options& options_;
  const UploadCache cache_;
  int port_ = 0;
  const int listener_;
  const int signals_;
  Handshakes handshakes_;
  Tracker tracker_;
  std::unique_ptr<Session> session_;
  std::set<pid_t> reporters_;  // processes that send clients the reason why their sessions ended
};

}  // namespace tvmake

#endif  // TVMAKE_SERVER_SERVER_H_
