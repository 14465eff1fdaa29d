// The connection to a tracker, which sends clients here.
#ifndef TVMAKE_SERVER_TRACKER_H_
#define TVMAKE_SERVER_TRACKER_H_

#include <poll.h>

#include <deque>
#include <string>
#include <vector>

#include "options.h"

namespace tvmake {

// Registers this server, offers it under a key that one client can use once, and makes a new key when that one was
// given out and not used. Comes back by itself to a tracker that was away. Without a tracker, the key is the server's.
class Tracker {
 public:
  Tracker(const Options& options, int port);
  ~Tracker();

  // No session is open: accept the next client.
  void Offer();
  // There is one.
  void Withhold() { is_offering_ = false; }

  // What a client has to know; empty while there is a session.
  std::string MatchKey() const { return is_offering_ ? match_key_ : ""; }

  void AddTo(std::vector<pollfd>* polled) const;
  void Serve(const std::vector<pollfd>& polled);

  // When to call Serve at the latest, in seconds on Now()'s clock; infinity for never.
  double Deadline() const;

 private:
  enum class State { kAway, kConnecting, kGreeting, kUp };
  enum class Question { kUpdateInfo, kPut, kPendingKeys };

  void Begin();
  void Read();
  void Take(const std::string& answer);
  void PutNewKey();
  void Ask(Question question, const std::string& message);
  void Send(const std::string& bytes);
  void Lose(const std::string& why);

  const Options& options_;
  const int port_;
  State state_ = State::kAway;
  int fd_ = -1;
  double next_attempt_ = 0;  // for the next attempt or question
  double deadline_ = 0;      // for an answer that is awaited
  double unused_since_ = 0;  // when the match key was first seen to be given out; 0 if it is not
  bool is_offering_ = false, was_logged_ = false;
  std::string match_key_, read_;
  std::deque<Question> pending_;
};

}  // namespace tvmake

#endif  // TVMAKE_SERVER_TRACKER_H_
