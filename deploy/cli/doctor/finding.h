#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace espalier::doctor {

// What a check concludes. kSkipped: it does not apply here, or cannot know; `found` says why.
enum class State : std::uint8_t { kOk, kWarning, kFailed, kSkipped };

// "ok", "warning", "failed", "skipped".
std::string_view StateName(State state);

// The outcome of one check for one subject. Texts may contain what the machine or the controller
// wrote, control characters too.
struct Finding {
  std::string place;    // "host" or "controller"
  std::string check;    // "gid"
  std::string subject;  // a device, an interface, a leaf; empty: the machine or the fabric
  State state = State::kOk;
  std::string found;
  std::string remedy;  // empty if there is nothing to do
};

// Collects the findings of all checks, in their order. The check that runs names itself with Begin.
class Findings {
 public:
  void Begin(std::string place, std::string check) {
    place_ = std::move(place);
    check_ = std::move(check);
  }
  void Ok(std::string subject, std::string found) {
    Add(State::kOk, std::move(subject), std::move(found), "");
  }
  void Warn(std::string subject, std::string found, std::string remedy) {
    Add(State::kWarning, std::move(subject), std::move(found), std::move(remedy));
  }
  void Fail(std::string subject, std::string found, std::string remedy) {
    Add(State::kFailed, std::move(subject), std::move(found), std::move(remedy));
  }
  void Skip(std::string subject, std::string why, std::string remedy = "") {
    Add(State::kSkipped, std::move(subject), std::move(why), std::move(remedy));
  }
  const std::vector<Finding>& all() const { return all_; }
  std::size_t Count(State state) const;

 private:
  void Add(State state, std::string subject, std::string found, std::string remedy);

  std::string place_;
  std::string check_;
  std::vector<Finding> all_;
};

// {"checks": [{"place", "check", "subject", "state", "found", "remedy"}], "ok": N, "warning": N,
// "failed": N, "skipped": N}
std::string FormatJson(const Findings& findings);
// A table, then the remedies, one a line. Control characters are escaped. `colours`: for a
// terminal.
std::string FormatText(const Findings& findings, bool colours);

}  // namespace espalier::doctor
