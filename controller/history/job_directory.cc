#include "controller/history/job_directory.h"

#include <algorithm>

namespace espalier::controller {

std::uint32_t JobDirectory::Intern(const std::string& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, next_);
  if (!is_new) {
    names_[found->second].used = ++uses_;
    return found->second;
  }
  if (names_.size() >= kMostNames) {
    const auto oldest =
        std::ranges::min_element(names_, {}, [](const auto& entry) { return entry.second.used; });
    numbers_.erase(oldest->second.text);
    names_.erase(oldest);
  }
  names_[next_] = {name, ++uses_};
  return next_++;
}

std::optional<std::uint32_t> JobDirectory::Find(const std::string& name) const {
  const auto found = numbers_.find(name);
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* JobDirectory::NameOf(std::uint32_t number) const {
  const auto found = names_.find(number);
  return found == names_.end() ? nullptr : &found->second.text;
}

}  // namespace espalier::controller
