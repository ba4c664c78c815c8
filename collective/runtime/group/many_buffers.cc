#include "collective/runtime/group/many_buffers.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collective/reduce/reduce.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> CheckBuffer(const void* buffer, std::size_t count, std::size_t index,
                         std::string_view what) {
  if (buffer != nullptr || count == 0) return {};
  return Refuse(fmt::format("{} {} is null", what, index));
}

}  // namespace

Result<void> AllReduceMany(Group& group, std::span<const void* const> inputs,
                           std::span<void* const> outputs, std::size_t count, reduce::DataType type,
                           reduce::ReduceOp op) {
  if (inputs.empty() || outputs.empty()) return Refuse("give at least one input and one output");
  if (op == reduce::ReduceOp::kAvg && inputs.size() > 1) {
    return Refuse(
        fmt::format("an average of {} inputs on a rank has no clear divisor (sum them, "
                    "and divide the result)",
                    inputs.size()));
  }
  const std::size_t element = reduce::SizeOf(type);
  if (count > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / element) {
    return Refuse(fmt::format("{} elements exceed the address space (a negative count?)", count));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto checked = CheckBuffer(inputs[i], count, i, "input");
    if (!checked) return checked;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto checked = CheckBuffer(outputs[i], count, i, "output");
    if (!checked) return checked;
  }
  std::vector<std::byte> own;
  const void* input = inputs[0];
  if (inputs.size() > 1 && count > 0) {
    own.resize(count * element);
    std::vector<const std::byte*> from;
    for (const void* one : inputs) from.push_back(static_cast<const std::byte*>(one));
    std::byte* to = own.data();
    reduce::Reduce({.type = type, .op = op}, from, {&to, 1}, count);
    input = own.data();
  }
  auto done =
      group.Run(CollectiveKind::kAllReduce, input, outputs[0], count, type, op, program::kNoRoot);
  if (!done || count == 0) return done;
  for (void* const output : outputs.subspan(1)) {
    if (output != outputs[0]) std::memcpy(output, outputs[0], count * element);
  }
  return done;
}

Result<void> AllReduceTogether(Group& group, std::span<const void* const> inputs,
                               std::span<void* const> outputs, std::span<const std::size_t> counts,
                               reduce::DataType type, reduce::ReduceOp op) {
  if (inputs.size() != counts.size() || outputs.size() != counts.size()) {
    return Refuse(fmt::format("{} inputs and {} outputs for {} counts (give one of each)",
                              inputs.size(), outputs.size(), counts.size()));
  }
  const std::size_t element = reduce::SizeOf(type);
  const std::size_t limit =
      static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()) / element;
  std::size_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > limit - all) {
      return Refuse(
          fmt::format("buffer {} of {} elements exceeds the address space (a negative "
                      "count?)",
                      i, counts[i]));
    }
    all += counts[i];
    auto checked = CheckBuffer(inputs[i], counts[i], i, "input");
    if (checked) checked = CheckBuffer(outputs[i], counts[i], i, "output");
    if (!checked) return checked;
  }
  std::vector<std::byte> given(all * element);
  std::vector<std::byte> got(all * element);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < counts.size(); begin += counts[i++] * element) {
    if (counts[i] > 0) std::memcpy(given.data() + begin, inputs[i], counts[i] * element);
  }
  auto done = group.Run(CollectiveKind::kAllReduce, given.data(), got.data(), all, type, op,
                        program::kNoRoot);
  if (!done) return done;
  begin = 0;
  for (std::size_t i = 0; i < counts.size(); begin += counts[i++] * element) {
    if (counts[i] > 0) std::memcpy(outputs[i], got.data() + begin, counts[i] * element);
  }
  return done;
}

}  // namespace espalier::runtime
