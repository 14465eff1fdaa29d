// Connections that have not yet sent their key.
#ifndef TVMAKE_SERVER_HANDSHAKE_H_
#define TVMAKE_SERVER_HANDSHAKE_H_

#include <poll.h>

#include <optional>
#include <string>
#include <vector>

namespace tvmake {

// A client with the right key.
struct Client {
  int fd;            // closed by whoever has it
  double timeout_s;  // the session time it asks for; 0 for none
};

// Takes connections, and answers those that are not wanted. None can hold the others up: nothing blocks, there is a
// limit on their number, and one that stays silent is closed after a while.
class Handshakes {
 public:
  explicit Handshakes(std::string key) : key_(std::move(key)) {}
  ~Handshakes();

  // Accept what waits at a listening socket.
  void Accept(int listener);

  void AddTo(std::vector<pollfd>* polled) const;

  // Read what came, and give the first client that has the match key. Others with it are refused from then on, as
  // their key is used up.
  //
  // match_key: what the tracker gives to clients; empty while there is a session.
  std::optional<Client> Serve(const std::vector<pollfd>& polled, const std::string& match_key);

  // When to call Serve at the latest, in seconds on Now()'s clock; infinity for never.
  double Deadline() const;

 private:
  struct Pending {
    int fd;
    double deadline;
    std::string read;
  };
  // Whether its greeting is complete; closes it if that is none.
  bool ReadGreeting(Pending* pending);
  std::optional<Client> Answer(const Pending& pending, const std::string& match_key);

  const std::string key_;
  std::vector<Pending> pending_;
};

}  // namespace tvmake

#endif  // TVMAKE_SERVER_HANDSHAKE_H_
