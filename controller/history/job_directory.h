#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

namespace espalier::controller {

// Gives the names of jobs numbers that are never used again, as records of jobs outlive the jobs.
// Keeps the kMostNames names that were used last; the numbers of others become unknown.
// Thread safety: one thread.
class JobDirectory {
 public:
  static constexpr std::size_t kMostNames = 1'024;

  // O(1); O(names) where a new name displaces another one.
  std::uint32_t Intern(const std::string& name);
  std::optional<std::uint32_t> Find(const std::string& name) const;
  // Null for a number whose name is not kept.
  const std::string* NameOf(std::uint32_t number) const;
  std::size_t size() const { return names_.size(); }

 private:
  struct Name {
    std::string text;
    std::uint64_t used = 0;  // counts calls of Intern
  };
  std::unordered_map<std::uint32_t, Name> names_;  // by number
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace espalier::controller
