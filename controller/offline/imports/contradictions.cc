#include "controller/offline/imports/contradictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {

std::string Contradictions::At(const Source& source) const {
  return imports::At(sources_[source.file].file, source.at);
}

void Contradictions::Add(const Source& source, const std::string& what) {
  if (++count_ <= kMostShown) shown_.push_back(fmt::format("{}: {}", At(source), what));
}

Result<void> Contradictions::Finish() const {
  if (count_ == 0) return {};
  std::string message = fmt::format("{}", fmt::join(shown_, "\n"));
  if (count_ > kMostShown) message += fmt::format("\nand {} more", count_ - kMostShown);
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

}  // namespace espalier::imports
