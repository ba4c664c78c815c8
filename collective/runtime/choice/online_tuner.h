#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace espalier::runtime {

// Chooses the faster of two candidates by timing them in the calls themselves. Which one is faster
// may change within minutes, as the speed of cache-line transfers does. Calls belong to classes. In
// each class both candidates are tried, then the faster one is used. The slower one is retried
// periodically, and replaces the other as soon as that takes longer. Besides trials, one call in
// `time_every` is timed. Thread safety: none. Complexity: O(1).
class OnlineTuner {
 public:
  enum class Candidate : std::uint8_t { kFirst, kSecond };
  explicit OnlineTuner(std::size_t classes, std::uint32_t time_every = 1)
      : classes_(classes), time_every_(time_every) {}

  // Chooses the candidate for the next call, which is of that class.
  Candidate Next(std::size_t call_class);
  // Whether Record must be called for that call.
  bool IsTimed() const { return is_timed_; }
  // Records how long that call took. The first call of a class is ignored, as its memory may be
  // touched for the first time.
  void Record(double seconds);

 private:
  struct CandidateTimes {
    std::uint32_t calls = 0;
    double seconds = 0;  // estimate
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
