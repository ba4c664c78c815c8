#include "controller/api/ended_flow_list.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "controller/api/flow_view.h"

namespace espalier::controller {
namespace {

std::string TimeText(const Controller& controller, TimePoint time) {
  return FormatWallTime(controller.WallNow() -
                        std::chrono::duration_cast<WallTime::duration>(controller.Now() - time));
}

void WriteEnded(io::JsonWriter& json, const Controller& controller, const EndedFlow& flow) {
  const State& state = controller.state();
  json.BeginObject();
  json.Key("sequence").Integer(static_cast<std::int64_t>(flow.sequence));
  json.Key("time").String(TimeText(controller, flow.ended));
  json.Key("flow").String(state.FlowName(flow.agent, flow.local));
  json.Key("job").String(flow.job);
  json.Key("source").String(NicName(state, flow.source));
  json.Key("destination").String(NicName(state, flow.destination));
  json.Key("status").String(FlowStatusName(flow.status));
  json.Key("reason").String(ReasonName(flow.reason));
  json.Key("via").String(flow.via);
  json.Key("source_port").Integer(flow.port);
  json.Key("bytes").Integer(static_cast<std::int64_t>(flow.announced_bytes));
  json.Key("seconds").Double(std::max(0.0, SecondsOf(flow.ended - flow.started)));
  json.EndObject();
}

class EndedItems : public Items {
 public:
  EndedItems(Controller& controller, std::uint64_t since)
      : controller_(controller), since_(since) {}

  std::vector<std::string_view> Arrays() const override { return {"flows"}; }
  std::optional<Item> Next() override {
    const auto& flows = controller_.state().ended_flows.flows();
    const auto next = std::ranges::upper_bound(flows, since_, {}, &EndedFlow::sequence);
    if (next == flows.end()) return std::nullopt;
    since_ = next->sequence;
    io::JsonWriter json;
    WriteEnded(json, controller_, *next);
    return Item{std::to_string(since_), json.Text()};
  }

 private:
  Controller& controller_;
  std::uint64_t since_;
};

}  // namespace

void ListEndedFlows(Controller& controller, const Page& page, ListDone done) {
  std::uint64_t since = page.since;
  if (!page.after.empty()) {
    const char* const end = page.after.data() + page.after.size();
    const auto parsed = std::from_chars(page.after.data(), end, since);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      return done(Fail(ErrorCode::kInvalidArgument,
                       "after: invalid value (give the \"next\" of the previous page)"));
    }
  }
  WriteList(controller.loop(), std::make_unique<EndedItems>(controller, since), page.limit,
            std::move(done));
}

std::optional<std::string> EndedFlowView(const Controller& controller, const std::string& name) {
  const State& state = controller.state();
  const bool by_ends = name.find('>') != std::string::npos;
  const auto& flows = state.ended_flows.flows();
  for (auto at = flows.rbegin(); at != flows.rend(); ++at) {
    const EndedFlow& flow = *at;
    const std::string own =
        by_ends ? NicName(state, flow.source) + ">" + NicName(state, flow.destination)
                : state.FlowName(flow.agent, flow.local);
    if (own != name) continue;
    io::JsonWriter json;
    json.BeginObject().Key("ended");
    WriteEnded(json, controller, flow);
    json.EndObject();
    return json.Text();
  }
  return std::nullopt;
}

}  // namespace espalier::controller
