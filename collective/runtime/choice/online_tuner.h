#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::runtime {

// Which of two ways to do calls is the faster one, found out in the calls themselves, as it may
// change within minutes (how fast lines pass between cores does). Calls are of classes; in each
// class both ways are tried, then the faster one is taken, and the other tried again now and then,
// or as soon as it takes longer than the other did. One call in `time_every` is timed, besides
// those that try. Thread safety: none. Complexity: O(1).
class OnlineTuner {
 public:
  enum class Candidate : std::uint8_t { kFirst, kSecond };
  explicit OnlineTuner(std::size_t classes, std::uint32_t time_every = 1)
      : classes_(classes), time_every_(time_every) {}

  // For a call of that class, which comes next.
  Candidate Next(std::size_t call_class);
  // Whether that call is to be recorded.
  bool IsTimed() const { return is_timed_; }
  // How long that call took. The first time in a class is none: its memory may be new.
  void Record(double seconds);

 private:
  struct CandidateTimes {
    std::uint32_t calls = 0;
    double seconds = 0;  // what to expect
  };
  struct Class {
    CandidateTimes candidates[2];
    std::uint32_t calls = 0;
  };
  static Candidate FasterOf(const Class& tried);

  std::vector<Class> classes_;
  std::uint32_t time_every_;
  std::size_t last_class_ = 0;
  Candidate last_candidate_ = Candidate::kFirst;
  bool is_timed_ = false;
};

}  // namespace espalier::runtime
