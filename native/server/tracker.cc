#include "tracker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <random>

#include "address.h"
#include "log.h"
#include "protocol.h"

namespace tvmake {
namespace {

constexpr double kRetryS = 1;           // between attempts to reach the tracker
constexpr double kPeriodS = 2;          // between questions, as TVM's server
constexpr double kAnswerTimeoutS = 10;  // for an answer
constexpr double kUnusedS = 6;          // for a client to use its key, as TVM's server
constexpr uint32_t kLongest = 1 << 24;

constexpr double kNever = std::numeric_limits<double>::infinity();

// What tells one key from another: "0.1234567890123".
std::string RandomPart() {
  std::random_device random;
  std::string digits = "0.";
  while (digits.size() < 18) digits += static_cast<char>('0' + random() % 10);
  return digits;
}

}  // namespace

Tracker::Tracker(const Options& options, int port) : options_(options), port_(port), match_key_(options.key) {}

Tracker::~Tracker() {
  if (fd_ >= 0) close(fd_);
}

void Tracker::Offer() {
  is_offering_ = true;
  if (state_ == State::kUp) PutNewKey();
}

void Tracker::AddTo(std::vector<pollfd>* polled) const {
  if (fd_ >= 0) polled->push_back({fd_, static_cast<short>(state_ == State::kConnecting ? POLLOUT : POLLIN), 0});
}

double Tracker::Deadline() const {
  if (options_.tracker_host.empty()) return kNever;
  return state_ == State::kUp && pending_.empty() ? next_attempt_ : state_ == State::kAway ? next_attempt_ : deadline_;
}

void Tracker::Serve(const std::vector<pollfd>& polled) {
  if (options_.tracker_host.empty()) return;
  const bool is_ready = std::any_of(polled.begin(), polled.end(),
                                    [&](const pollfd& entry) { return fd_ >= 0 && entry.fd == fd_ && entry.revents; });
  if (state_ == State::kAway) {
    if (Now() >= next_attempt_) Begin();
    return;
  }
  if (is_ready && state_ == State::kConnecting) {
    int code = 0;
    socklen_t size = sizeof code;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return Lose(strerror(code));
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    state_ = State::kGreeting;
    // By itself: the tracker takes whatever comes first for the greeting.
    Send(NumberBytes(kTrackerMagic));
  } else if (is_ready) {
    Read();
  }
  if (state_ == State::kAway) return;
  if (state_ == State::kUp && pending_.empty()) {
    if (Now() >= next_attempt_) Ask(Question::kPendingKeys, "[" + std::to_string(kGetPendingKeys) + "]");
  } else if (Now() >= deadline_) {
    Lose("no answer");
  }
}

void Tracker::Begin() {
  try {
    fd_ = Connect(options_.tracker_host, options_.tracker_port);
  } catch (const AddressError& error) {
    return Lose(error.what());
  }
  state_ = State::kConnecting;
  deadline_ = Now() + kAnswerTimeoutS;
}

void Tracker::Read() {
  char part[4096];
  const ssize_t size = recv(fd_, part, sizeof part, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return Lose(size == 0 ? "it closed the connection" : strerror(errno));
#ifdef TCP_QUICKACK
  // It sends lengths by themselves and waits for them to be acknowledged, which takes 40 ms unless asked for.
  const int yes = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &yes, sizeof yes);
#endif
  read_.append(part, static_cast<std::size_t>(size));
  if (state_ == State::kGreeting && read_.size() >= 4) {
    if (NumberAt(read_, 0) != kTrackerMagic) return Lose("the program at this address is not a TVM tracker");
    read_.erase(0, 4);
    state_ = State::kUp;
    was_logged_ = false;
    Log("registered with the tracker as " + options_.key);
    const std::string address = options_.announced_address.empty() ? "null" : "\"" + options_.announced_address + "\"";
    Ask(Question::kUpdateInfo, "[" + std::to_string(kUpdateInfo) + ",{\"key\":\"server:" + options_.key +
                                   "\",\"addr\":[" + address + "," + std::to_string(port_) + "]}]");
    if (is_offering_ && state_ == State::kUp) PutNewKey();
  }
  while (state_ == State::kUp && read_.size() >= 4) {
    const uint32_t length = NumberAt(read_, 0);
    if (length == 0 || length > kLongest) return Lose("the program at this address is not a TVM tracker");
    if (read_.size() < 4 + length) return;
    const std::string answer = read_.substr(4, length);
    read_.erase(0, 4 + length);
    Take(answer);
  }
}

void Tracker::Take(const std::string& answer) {
  if (pending_.empty()) return Lose("it answers what nobody asked");
  const Question question = pending_.front();
  pending_.pop_front();
  deadline_ = Now() + kAnswerTimeoutS;
  if (question != Question::kPendingKeys) {
    if (answer != "0") Lose("it refused: " + answer);
    return;
  }
  next_attempt_ = Now() + kPeriodS;
  if (!is_offering_) return;
  // The random part is in no other key, whatever way JSON spells the rest.
  const std::string mark = match_key_.substr(match_key_.rfind(':')) + "\"";
  if (answer.find(mark) != std::string::npos) {
    unused_since_ = 0;
  } else if (unused_since_ == 0) {
    unused_since_ = Now();
  } else if (Now() - unused_since_ > kUnusedS) {
    Log("a client was sent here and did not come; offering again");
    PutNewKey();
  }
}

void Tracker::PutNewKey() {
  match_key_ = options_.key + ":" + RandomPart();
  unused_since_ = 0;
  const std::string address = options_.announced_address.empty() ? "null" : "\"" + options_.announced_address + "\"";
  Ask(Question::kPut, "[" + std::to_string(kPut) + ",\"" + options_.key + "\",[" + std::to_string(port_) + ",\"" +
                          match_key_ + "\"]," + address + "]");
}

void Tracker::Ask(Question question, const std::string& message) {
  if (pending_.empty()) deadline_ = Now() + kAnswerTimeoutS;
  pending_.push_back(question);
  Send(NumberBytes(static_cast<uint32_t>(message.size())) + message);
}

void Tracker::Send(const std::string& bytes) {
  // So little always fits, unless the tracker has stopped reading.
  const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) Lose(sent < 0 ? strerror(errno) : "it does not read");
}

void Tracker::Lose(const std::string& why) {
  if (!was_logged_) {
    Log("no tracker at " + options_.tracker_host + ":" + std::to_string(options_.tracker_port) + " (" + why +
        "); trying again every second");
  }
  was_logged_ = true;
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  state_ = State::kAway;
  next_attempt_ = Now() + kRetryS;
  pending_.clear();
  read_.clear();
}

}  // namespace tvmake
