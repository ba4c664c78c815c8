#include "collective/synthesis/schedules/schedule_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "collective/forest/model/exact_text.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::synthesis {
namespace {

using io::JsonFields;
using io::JsonValue;

// A node has this few letters at least, so that a text of more sends is too long.
constexpr std::size_t kLeastSendText = 30;

class Reader {
 public:
  Reader(std::string_view name, const fabric::Topology& topology)
      : name_(name), topology_(topology) {}

  Result<ScheduleFile> Read(const JsonValue& document) {
    JsonFields fields(document, name_);
    ReadHead(fields);
    const auto& steps = fields.RequiredArray("steps");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    Schedule& schedule = file_.schedule;
    if (static_cast<std::int64_t>(steps.size()) > kMaxScheduleSteps) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} steps are too many (give at most {})", fields.At("steps"),
                              steps.size(), kMaxScheduleSteps));
    }
    schedule.steps = static_cast<std::int32_t>(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (auto ok = ReadStep(steps[i], static_cast<std::int32_t>(i) + 1); !ok) return Propagate(ok);
    }
    return file_;
  }

 private:
  void ReadHead(JsonFields& fields) {
    Schedule& schedule = file_.schedule;
    schedule.node_count = static_cast<std::int32_t>(topology_.nodes().size());
    const auto collective = forest::FindCollective(fields.RequiredString("collective"));
    if (!collective || !CheckCollective(*collective)) {
      fields.AddError("collective",
                      "unknown collective (give allgather, reduce-scatter or allreduce)");
    } else {
      schedule.collective = *collective;
    }
    schedule.chunks = fields.Integer("chunks", 1, 1, kMaxChunks);
    for (const auto& [key, target] : {std::pair("t_l", &file_.t_l), {"t_b", &file_.t_b}}) {
      const auto value = forest::ParseRational(fields.RequiredString(key));
      if (!value) fields.AddError(key, "not a rational number (write \"7\" or \"7/2\")");
      *target = value.value_or(Rational());
    }
  }

  Result<void> ReadStep(const JsonValue& value, std::int32_t step) {
    JsonFields fields(value, name_);
    const bool reduces = fields.Bool("reduce", false);
    if (reduces && file_.schedule.reduce_steps != step - 1) {
      fields.AddError("reduce", "a step that reduces follows one that does not");
    }
    if (reduces) file_.schedule.reduce_steps = step;
    const auto& sends = fields.RequiredArray("sends");
    if (auto done = fields.Finish(); !done) return done;
    for (const JsonValue& send : sends) {
      if (auto ok = ReadSend(send, step); !ok) return ok;
    }
    return {};
  }

  Result<void> ReadSend(const JsonValue& value, std::int32_t step) {
    JsonFields fields(value, name_);
    Send send{.step = step};
    for (const auto& [key, node] :
         {std::pair("shard", &send.source), {"from", &send.from}, {"to", &send.to}}) {
      const std::string id = fields.RequiredString(key);
      const auto found = topology_.FindNode(id);
      if (!found) fields.AddError(key, fmt::format("the topology has no node \"{}\"", id));
      *node = found.value_or(fabric::NodeId()).value();
    }
    send.begin = ReadBound(fields, "begin", Rational());
    send.end = ReadBound(fields, "end", Rational(1, 1));
    if (send.begin >= send.end) fields.AddError("end", "the part of the shard is empty");
    if (auto done = fields.Finish(); !done) return done;
    file_.schedule.sends.push_back(send);
    return {};
  }

  // Returns a bound of a part in chunks.
  std::int32_t ReadBound(JsonFields& fields, std::string_view key, const Rational& fallback) {
    const auto& chunks = file_.schedule.chunks;
    const auto text = fields.Decimal(key);
    const auto bound = text ? forest::ParseRational(*text) : fallback;
    const bool fits = bound && *bound <= Rational(1, 1) && chunks % bound->denominator() == 0;
    if (!fits) {
      fields.AddError(
          key, fmt::format("not a multiple of 1/{} from 0 to 1 (as \"chunks\" says)", chunks));
      return 0;
    }
    return static_cast<std::int32_t>(bound->numerator() * (chunks / bound->denominator()));
  }

  std::string_view name_;
  const fabric::Topology& topology_;
  ScheduleFile file_;
};

}  // namespace

Result<std::string> FormatScheduleJson(const fabric::Topology& topology, const Schedule& schedule,
                                       const ScheduleCost& cost) {
  const auto too_long = [] {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the schedule is too large for JSON of {} characters (choose another "
                            "format, or fewer nodes)",
                            kMaxScheduleJson));
  };
  if (schedule.sends.size() > kMaxScheduleJson / kLeastSendText) return too_long();
  std::vector<const Send*> order;
  for (const Send& send : schedule.sends) order.push_back(&send);
  std::stable_sort(order.begin(), order.end(),
                   [](const Send* x, const Send* y) { return x->step < y->step; });
  io::JsonWriter writer;
  writer.BeginObject();
  writer.Key("collective").String(forest::CollectiveName(schedule.collective));
  writer.Key("chunks").Integer(schedule.chunks);
  writer.Key("t_l").String(std::to_string(cost.steps)).Key("t_b").String(cost.t_b.ToString());
  writer.Key("steps").BeginArray();
  const auto id = [&](std::int32_t node) -> std::string_view {
    return topology.node(fabric::NodeId(node)).id;
  };
  auto next = order.begin();
  for (std::int32_t step = 1; step <= schedule.steps; ++step) {
    writer.BeginObject().Key("reduce").Bool(step <= schedule.reduce_steps);
    writer.Key("sends").BeginArray();
    for (; next != order.end() && (*next)->step == step; ++next) {
      const Send& send = **next;
      writer.BeginObject().Key("shard").String(id(send.source));
      writer.Key("from").String(id(send.from)).Key("to").String(id(send.to));
      writer.Key("begin").String(Rational(send.begin, schedule.chunks).ToString());
      writer.Key("end").String(Rational(send.end, schedule.chunks).ToString()).EndObject();
    }
    writer.EndArray().EndObject();
  }
  writer.EndArray().EndObject();
  std::string text = writer.Text();
  if (text.size() > kMaxScheduleJson) return too_long();
  return text;
}

Result<ScheduleFile> ParseScheduleJson(std::string_view text, std::string_view name,
                                       const fabric::Topology& topology) {
  const auto document = io::ParseJson(text, name);
  if (!document) return tl::unexpected<Error>(document.error());
  return Reader(name, topology).Read(*document);
}

Result<ScheduleCost> VerifyScheduleFile(const Digraph& graph, const ScheduleFile& file) {
  auto cost = VerifySchedule(graph, file.schedule);
  if (!cost) return cost;
  if (file.t_l != Rational(cost->steps, 1) || file.t_b != cost->t_b) {
    return Fail(
        ErrorCode::kFailedPrecondition,
        fmt::format("the file states t_l {} and t_b {}, but the schedule has {} and {}",
                    file.t_l.ToString(), file.t_b.ToString(), cost->steps, cost->t_b.ToString()));
  }
  return cost;
}

}  // namespace espalier::synthesis
