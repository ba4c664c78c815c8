#include "controller/api/actions/schedule_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "controller/api/actions/accepted_answer.h"

namespace espalier::controller {

Result<std::string> DeclareSchedule(Controller& controller, std::string_view text) {
  using Kind = io::JsonValue::Kind;
  constexpr std::int64_t kMaxBytes = 1'000'000'000'000'000'000;
  constexpr std::int64_t kMaxMicroseconds = 1'000'000'000'000;
  constexpr std::size_t kMaxFlows = 16'384;
  constexpr std::size_t kMaxCharacters = 63;
  const auto parsed = io::ParseJson(text, "schedule");
  if (!parsed) return tl::unexpected<Error>(parsed.error());
  io::JsonFields fields(*parsed, "schedule");
  StartPredictor::Schedule schedule{.job = fields.RequiredString("job")};
  const std::string transport = fields.String("transport", "verbs");
  schedule.bytes_each = static_cast<std::uint64_t>(fields.Integer("bytes", 0, 0, kMaxBytes));
  schedule.period = std::chrono::microseconds(fields.Integer("period_us", 0, 0, kMaxMicroseconds));
  const std::vector<io::JsonValue>& pairs = fields.RequiredArray("flows");
  if (transport == "tcp") schedule.protocol = wire::kProtocolTcp;
  const bool is_printable = std::all_of(schedule.job.begin(), schedule.job.end(),
                                        [](char c) { return c >= ' ' && c <= '~'; });
  if (schedule.job.empty() || schedule.job.size() > kMaxCharacters || !is_printable) {
    fields.AddError(
        "job", fmt::format("invalid job name (use 1 to {} printable characters)", kMaxCharacters));
  }
  if (transport != "tcp" && transport != "verbs") {
    fields.AddError("transport", "unknown transport (give \"verbs\" or \"tcp\")");
  }
  if (pairs.size() > kMaxFlows) {
    fields.AddError("flows", fmt::format("too many flows (give at most {})", kMaxFlows));
  }
  if (const Result<void> read = fields.Finish(); !read) return tl::unexpected(read.error());
  for (const io::JsonValue& pair : pairs) {
    const auto is_text = [](const io::JsonValue& end) { return end.kind == Kind::kString; };
    if (pair.items.size() != 2 || !std::all_of(pair.items.begin(), pair.items.end(), is_text)) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("schedule:{}:{}: invalid flow (give [NIC, NIC])", pair.line, pair.column));
    }
    const fabric::Topology& topology = controller.state().topology;
    const auto from = topology.FindNode(pair.items[0].text);
    const auto to = topology.FindNode(pair.items[1].text);
    if (!from || !to) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("there is no node \"{}\" (`espalier nodes` lists them)",
                              pair.items[from ? 1 : 0].text));
    }
    schedule.flows.emplace_back(*from, *to);
  }
  const auto taken = controller.DeclareStarts(schedule);
  if (!taken) return tl::unexpected<Error>(taken.error());
  return AcceptedAnswer(*taken);
}

}  // namespace espalier::controller
