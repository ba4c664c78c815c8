#include "controller/api/history/history_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/json_writer.h"
#include "controller/api/views/link_view.h"
#include "controller/state/fabric_health.h"

namespace espalier::controller {
namespace {

using fabric::LinkId;
using io::JsonWriter;

constexpr Duration kDefaultSpan = std::chrono::minutes(10);

std::string TimeOf(const Controller& controller, TimePoint time) {
  return FormatWallTime(controller.WallNow() -
                        std::chrono::duration_cast<WallTime::duration>(controller.Now() - time));
}

// A time as operators write it, and "-30m" for half an hour ago.
Result<TimePoint> ParsePast(const Controller& controller, std::string_view name,
                            const std::string& text) {
  const bool is_ago = text.starts_with('-');
  const WallTime now = controller.WallNow();
  const Result<WallTime> time = ParseWallTime(is_ago ? text.substr(1) : text, now);
  if (!time) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", name, time.error().message));
  }
  const WallTime::duration ago = is_ago ? *time - now : now - *time;
  constexpr WallTime::duration kMost = std::chrono::hours(24 * 366);
  return controller.Now() - Duration(std::clamp(ago, -kMost, kMost));
}

Result<std::optional<Duration>> ParseResolution(const std::string& text) {
  if (text.empty()) return std::nullopt;
  for (const FabricHistory::Resolution& one : FabricHistory::kResolutions) {
    if (text == fmt::format("{}", one.step / std::chrono::seconds(1))) return one.step;
  }
  return Fail(ErrorCode::kInvalidArgument,
              "resolution: invalid value (give 1, 10 or 60: seconds of each sample)");
}

// Rounds to what the history knows, so that answers are short.
double Round(double value, double parts) { return std::round(value * parts) / parts; }

std::string_view StateName(std::uint8_t state) {
  constexpr std::string_view kNames[] = {"UP", "LOSSY", "DRAINED", "DOWN"};
  return kNames[std::min<std::size_t>(state, 3)];
}

std::int64_t Bits(double bps) { return static_cast<std::int64_t>(bps); }

void WriteLinkRecord(JsonWriter& json, const State& state, LinkId id, const LinkRecord& record) {
  const auto rate = static_cast<double>(state.topology.link(id).rate.value);
  json.Key("state").String(StateName(record.state));
  json.Key("load_a_to_b").Double(Round(DecodeLoad(record.load[0]), 100));
  json.Key("load_b_to_a").Double(Round(DecodeLoad(record.load[1]), 100));
  json.Key("bps_a_to_b").Integer(Bits(rate * DecodeUse(record.use[0])));
  json.Key("bps_b_to_a").Integer(Bits(rate * DecodeUse(record.use[1])));
}

void WriteJobRecord(JsonWriter& json, const JobRecord& record) {
  json.Key("flows").Integer(record.flows);
  json.Key("flows_unroutable").Integer(record.without_path);
  json.Key("achieved_bps").Integer(Bits(record.bps));
  json.Key("slowest_flow_bps").Integer(Bits(record.slowest_bps));
  json.Key("rounds").Integer(record.rounds);
  json.Key("allreduce_seconds").Double(Round(record.round_seconds, 1e6));
  json.Key("ideal_seconds").Double(Round(record.ideal_seconds, 1e6));
  json.Key("longest_seconds").Double(Round(record.longest_seconds, 1e6));
}

// False if its ends are not of this topology.
bool WriteFlowRecord(JsonWriter& json, const State& state, const FlowRecord& record) {
  const auto nodes = state.topology.nodes();
  const auto is_known = [&](std::int32_t node) {
    return node >= 0 && static_cast<std::size_t>(node) < nodes.size();
  };
  if (!is_known(record.source) || !is_known(record.destination)) return false;
  json.Key("source").String(nodes[static_cast<std::size_t>(record.source)].id);
  json.Key("destination").String(nodes[static_cast<std::size_t>(record.destination)].id);
  json.Key("protocol").Integer(record.protocol);
  json.Key("source_port").Integer(record.port);
  json.Key("status").String(FlowStatusName(static_cast<FlowStatus>(record.status)));
  json.Key("achieved_bps").Integer(Bits(record.bps));
  json.Key("hops").BeginArray();
  for (std::size_t i = 0; i < record.hops; ++i) json.Integer(record.path[i]);
  json.EndArray();
  return true;
}

void WriteFabricRecord(JsonWriter& json, const State& state, const FabricRecord& record) {
  const auto name = [&](std::int32_t link) {
    const auto links = state.topology.links();
    const bool is_known = link >= 0 && static_cast<std::size_t>(link) < links.size();
    return is_known ? links[static_cast<std::size_t>(link)].id : std::string();
  };
  json.Key("health").String(HealthName(static_cast<FabricHealth::Word>(record.health)));
  json.Key("flows").Integer(record.flows);
  json.Key("flows_without_path").Integer(record.without_path);
  json.Key("flows_on_dead_links").Integer(record.on_dead_links);
  json.Key("achieved_bps").Integer(Bits(record.bps));
  json.Key("max_load").Double(Round(record.max_load, 100));
  json.Key("lower_bound").Double(Round(record.fair_load, 100));
  json.Key("most_loaded_link").String(name(record.most_loaded));
  json.Key("max_use").Double(Round(record.max_use, 1000));
  json.Key("most_used_link").String(name(record.most_used));
  json.Key("agents_connected").Integer(record.agents);
  json.Key("links_not_up").Integer(record.links_off);
  json.Key("moves").Integer(record.moves);
  json.Key("failures").Integer(record.failures);
  json.Key("actions").Integer(record.actions);
  json.Key("rounds").Integer(record.rounds);
  json.Key("worst_round").Double(Round(record.round_excess, 1000));
}

// The members of an object, before others that follow.
std::string MembersOf(const JsonWriter& object) {
  const std::string text = object.Text();
  return text.substr(1, text.size() - 2) + ",";
}

std::int64_t SecondsIn(Duration step) { return step / std::chrono::seconds(1); }

// Writes a sample as the members of an object; false if there is nothing to tell.
using WriteSample = std::function<bool(JsonWriter& json, const Sample& sample)>;

// The samples of a series. Between two turns samples may be added, so that the next one is found by
// its time.
class SampleItems : public Items {
 public:
  SampleItems(const Controller& controller, const FabricHistory& history,
              FabricHistory::Series series, TimePoint to, WriteSample write)
      : controller_(controller),
        history_(history),
        step_(series.step),
        to_(to),
        write_(std::move(write)) {
    if (series.begin < series.end) next_ = series.ring->At(series.begin).begin;
  }

  std::vector<std::string_view> Arrays() const override { return {"samples"}; }
  std::string Head() override {
    const auto oldest = history_.oldest();
    JsonWriter json;
    json.BeginObject();
    json.Key("resolution_seconds").Integer(SecondsIn(step_));
    json.Key("oldest").String(oldest ? TimeOf(controller_, *oldest) : "");
    json.Key("now").String(TimeOf(controller_, controller_.Now()));
    json.Key("bytes").Integer(static_cast<std::int64_t>(history_.used_bytes()));
    json.Key("bytes_when_full").Integer(static_cast<std::int64_t>(history_.full_bytes()));
    json.EndObject();
    return MembersOf(json);
  }
  std::optional<Item> Next() override {
    while (next_) {
      const auto series = history_.Between(*next_ + step_ - Duration(1), to_, step_);
      if (series.begin >= series.end) return std::nullopt;
      const Sample sample = series.ring->At(series.begin);
      if (sample.begin > to_) return std::nullopt;
      next_ = sample.begin + Duration(1);
      JsonWriter json;
      json.BeginObject();
      json.Key("time").String(TimeOf(controller_, sample.begin));
      if (!write_(json, sample)) continue;
      json.EndObject();
      return Item{.name = "", .json = json.Text()};
    }
    return std::nullopt;
  }

 private:
  const Controller& controller_;
  const FabricHistory& history_;
  const Duration step_;
  const TimePoint to_;
  const WriteSample write_;
  std::optional<TimePoint> next_;  // the next sample begins then, or later
};

// The records of one moment, which are copied, as samples added between two turns may replace them.
class MomentItems : public Items {
 public:
  MomentItems(const Controller& controller, const FabricHistory& history,
              const FabricHistory::Moment& moment)
      : controller_(controller),
        jobs_known_(history.jobs()),
        begin_(moment.sample.begin),
        step_(moment.step),
        fabric_(moment.sample.fabric),
        links_(moment.sample.links.begin(), moment.sample.links.end()),
        jobs_(moment.sample.jobs.begin(), moment.sample.jobs.end()),
        flows_(moment.sample.flows.begin(), moment.sample.flows.end()) {}

  std::vector<std::string_view> Arrays() const override { return {"links", "jobs", "flows"}; }
  std::string Head() override {
    JsonWriter json;
    json.BeginObject();
    json.Key("time").String(TimeOf(controller_, begin_));
    json.Key("resolution_seconds").Integer(SecondsIn(step_));
    json.Key("fabric").BeginObject();
    WriteFabricRecord(json, controller_.state(), fabric_);
    json.EndObject().EndObject();
    return MembersOf(json);
  }
  std::optional<Item> Next() override {
    for (; next_link_ < links_.size(); ++next_link_) {
      if (links_[next_link_] == LinkRecord{}) continue;  // up and idle
      const LinkId id(static_cast<std::int32_t>(next_link_));
      JsonWriter json;
      json.BeginObject();
      json.Key("link").Integer(id.value());
      WriteLinkRecord(json, controller_.state(), id, links_[next_link_++]);
      json.EndObject();
      return Item{.name = "", .json = json.Text(), .array = 0};
    }
    for (; next_job_ < jobs_.size(); ++next_job_) {
      const std::string* const name = jobs_known_.NameOf(jobs_[next_job_].job);
      if (name == nullptr) continue;
      JsonWriter json;
      json.BeginObject();
      json.Key("job").String(*name);
      WriteJobRecord(json, jobs_[next_job_++]);
      json.EndObject();
      return Item{.name = "", .json = json.Text(), .array = 1};
    }
    for (; next_flow_ < flows_.size(); ++next_flow_) {
      const std::string* const name = jobs_known_.NameOf(flows_[next_flow_].job);
      if (name == nullptr) continue;
      JsonWriter json;
      json.BeginObject();
      json.Key("job").String(*name);
      if (!WriteFlowRecord(json, controller_.state(), flows_[next_flow_])) continue;
      ++next_flow_;
      json.EndObject();
      return Item{.name = "", .json = json.Text(), .array = 2};
    }
    return std::nullopt;
  }

 private:
  const Controller& controller_;
  const JobDirectory& jobs_known_;
  const TimePoint begin_;
  const Duration step_;
  const FabricRecord fabric_;
  const std::vector<LinkRecord> links_;
  const std::vector<JobRecord> jobs_;
  const std::vector<FlowRecord> flows_;
  std::size_t next_link_ = 0;
  std::size_t next_job_ = 0;
  std::size_t next_flow_ = 0;
};

// Lists the samples of the query's time span.
void ListSamples(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
                 WriteSample write, ListDone done) {
  Result<TimePoint> from = controller.Now() - kDefaultSpan;
  if (!query.from.empty()) from = ParsePast(controller, "from", query.from);
  if (!from) return done(Propagate(from));
  Result<TimePoint> to = controller.Now();
  if (!query.to.empty()) to = ParsePast(controller, "to", query.to);
  if (!to) return done(Propagate(to));
  if (*to < *from) {
    return done(Fail(ErrorCode::kInvalidArgument, "to: invalid value (give a time after `from`)"));
  }
  auto step = ParseResolution(query.resolution);
  if (!step) return done(Propagate(step));
  WriteList(controller.loop(),
            std::make_unique<SampleItems>(controller, history, history.Between(*from, *to, *step),
                                          *to, std::move(write)),
            std::nullopt, std::move(done));
}

}  // namespace

void ListFabricHistory(Controller& controller, const FabricHistory& history,
                       const HistoryQuery& query, ListDone done) {
  const State& state = controller.state();
  const auto write = [&state](JsonWriter& json, const Sample& sample) {
    WriteFabricRecord(json, state, sample.fabric);
    return true;
  };
  ListSamples(controller, history, query, write, std::move(done));
}

void ListLinkHistory(Controller& controller, const FabricHistory& history,
                     const HistoryQuery& query, ListDone done) {
  const State& state = controller.state();
  const auto link = state.topology.FindLink(query.id);
  if (!link) {
    return done(
        Fail(ErrorCode::kNotFound,
             fmt::format("there is no link \"{}\" (`espalier links` lists them)", query.id)));
  }
  const auto write = [&state, id = *link](JsonWriter& json, const Sample& sample) {
    if (id.Index() >= sample.links.size()) return false;
    WriteLinkRecord(json, state, id, sample.links[id.Index()]);
    return true;
  };
  ListSamples(controller, history, query, write, std::move(done));
}

void ListJobHistory(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
                    ListDone done) {
  const auto job = history.jobs().Find(query.id);
  const auto write = [job](JsonWriter& json, const Sample& sample) {
    const auto found =
        std::ranges::find_if(sample.jobs, [&](const JobRecord& one) { return one.job == job; });
    if (found == sample.jobs.end()) return false;
    WriteJobRecord(json, *found);
    return true;
  };
  ListSamples(controller, history, query, write, std::move(done));
}

void ShowMoment(Controller& controller, const FabricHistory& history, const HistoryQuery& query,
                ListDone done) {
  Result<TimePoint> at = controller.Now();
  if (!query.time.empty()) at = ParsePast(controller, "time", query.time);
  if (!at) return done(Propagate(at));
  const auto moment = history.At(*at);
  if (!moment) {
    const auto oldest = history.oldest();
    return done(Fail(ErrorCode::kNotFound,
                     oldest ? fmt::format("the history begins at {} (give a later time)",
                                          TimeOf(controller, *oldest))
                            : "there is no history yet (with history_bytes: 0 there is none)"));
  }
  WriteList(controller.loop(), std::make_unique<MomentItems>(controller, history, *moment),
            std::nullopt, std::move(done));
}

}  // namespace espalier::controller
