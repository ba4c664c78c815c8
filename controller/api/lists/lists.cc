#include "controller/api/lists/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files/json_writer.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/api/views/flow_view.h"
#include "controller/api/views/job_view.h"
#include "controller/api/views/link_view.h"
#include "controller/api/views/views.h"

namespace espalier::controller {
namespace {

class AgentItems : public Items {
 public:
  AgentItems(Controller& controller, std::size_t first) : controller_(controller), next_(first) {}

  std::vector<std::string_view> Arrays() const override { return {"agents"}; }
  std::optional<Item> Next() override {
    const State& state = controller_.state();
    if (next_ >= state.agents.size()) return std::nullopt;
    const AgentId id(static_cast<std::int32_t>(next_++));
    return Item{state.agents.At(id).name, AgentView(controller_, id)};
  }

 private:
  Controller& controller_;
  std::size_t next_;
};

// Iterates over flows and edges by agent and number. Flow slots are reused, so the position is the
// flow that was returned last.
class FlowWalk {
 public:
  FlowWalk(const State& state, std::size_t agent, std::optional<wire::LocalFlowId> after)
      : state_(state), agent_(agent), after_(after) {}

  std::optional<ShownFlow> Next() {
    for (; agent_ < state_.agents.size(); ++agent_, after_.reset()) {
      auto next = NextOf(AgentId(static_cast<std::int32_t>(agent_)));
      if (!next) continue;
      after_ = next->local;
      return next;
    }
    return std::nullopt;
  }

 private:
  std::optional<ShownFlow> NextOf(AgentId agent) const {
    const auto slot = state_.flows.FindAfter(agent, after_);
    const auto edge = state_.edges.all().upper_bound({agent, after_.value_or(wire::LocalFlowId())});
    const bool has_edge = edge != state_.edges.all().end() && edge->first.agent == agent;
    if (slot && !(has_edge && edge->first.number < state_.flows.At(*slot).local)) {
      return Show(state_, *slot);
    }
    return has_edge ? std::optional(Show(state_, edge->first, edge->second)) : std::nullopt;
  }

  const State& state_;
  std::size_t agent_;
  std::optional<wire::LocalFlowId> after_;  // the last flow of this agent that was returned
};

class FlowItems : public Items {
 public:
  // `link`: only flows whose path has it; none: all.
  FlowItems(Controller& controller, std::size_t agent, std::optional<wire::LocalFlowId> after,
            std::optional<fabric::LinkId> link)
      : controller_(controller), walk_(controller.state(), agent, after), link_(link) {}

  std::vector<std::string_view> Arrays() const override { return {"flows"}; }
  std::optional<Item> Next() override {
    const State& state = controller_.state();
    auto flow = walk_.Next();
    while (flow && link_ && !UsesLink(state, *flow, *link_)) flow = walk_.Next();
    if (!flow) return std::nullopt;
    io::JsonWriter json;
    WriteFlow(json, state, *flow, AttestationOf(controller_, *flow), controller_.Now());
    return Item{state.FlowName(flow->agent, flow->local), json.Text()};
  }

 private:
  Controller& controller_;
  FlowWalk walk_;
  std::optional<fabric::LinkId> link_;
};

class NodeItems : public Items {
 public:
  NodeItems(Controller& controller, std::size_t first) : controller_(controller), next_(first) {}

  std::vector<std::string_view> Arrays() const override { return {"nodes"}; }
  std::optional<Item> Next() override {
    const State& state = controller_.state();
    if (next_ >= state.topology.nodes().size()) return std::nullopt;
    const fabric::NodeId id(static_cast<std::int32_t>(next_++));
    return Item{state.topology.node(id).id, NodeStateView(state, id)};
  }

 private:
  Controller& controller_;
  std::size_t next_;
};

// Items that need statistics of all flows.
class CountedItems : public Items {
 public:
  explicit CountedItems(Controller& controller)
      : controller_(controller),
        statistics_(controller.state()),
        walk_(controller.state(), 0, {}) {}

  bool Prepare() override {
    for (std::size_t i = 0; i < kListItemsPerTurn; ++i) {
      const auto flow = walk_.Next();
      if (!flow) return true;
      statistics_.Count(controller_.state(), *flow);
    }
    return false;
  }

 protected:
  Controller& controller() { return controller_; }
  const FlowStatistics& statistics() const { return statistics_; }

 private:
  Controller& controller_;
  FlowStatistics statistics_;
  FlowWalk walk_;
};

class LinkItems : public CountedItems {
 public:
  LinkItems(Controller& controller, std::size_t first) : CountedItems(controller), next_(first) {}

  std::vector<std::string_view> Arrays() const override { return {"links"}; }
  std::string Head() override {
    return fmt::format("\"version\":{},\"max_link_flows\":{},",
                       controller().state().topology.version(), statistics().max_link_flows());
  }
  std::optional<Item> Next() override {
    const State& state = controller().state();
    if (next_ >= state.topology.links().size()) return std::nullopt;
    const fabric::LinkId id(static_cast<std::int32_t>(next_++));
    io::JsonWriter json;
    WriteLink(json, controller(), id, statistics().traffic());
    return Item{state.topology.link(id).id, json.Text()};
  }

 private:
  std::size_t next_;
};

class JobItems : public CountedItems {
 public:
  JobItems(Controller& controller, std::uint32_t first)
      : CountedItems(controller), number_(first) {}

  std::vector<std::string_view> Arrays() const override { return {"jobs"}; }
  bool Prepare() override {
    if (!is_counted_) {
      is_counted_ = CountedItems::Prepare();
      return false;
    }
    const State& state = controller().state();
    for (std::size_t i = 0; i < kListItemsPerTurn; ++i, ++number_) {
      if (number_ >= state.flows.jobs().size()) return true;
      if (ShowsJob(state, controller().Now(), number_, statistics())) jobs_.push_back(number_);
    }
    return false;
  }
  std::optional<Item> Next() override {
    if (next_ >= jobs_.size()) return std::nullopt;
    const std::uint32_t job = jobs_[next_++];
    return Item{.name = std::to_string(job),
                .json = JobView(controller().state(), controller().Now(), job, statistics()),
                .work = 1 + statistics().traffic().paths.size() / kDirectionsPerItem};
  }

 private:
  // The view of a job visits every directed link; this many cost as much as another item.
  static constexpr std::size_t kDirectionsPerItem = 4'096;

  bool is_counted_ = false;
  std::uint32_t number_;  // all jobs below it were visited
  std::vector<std::uint32_t> jobs_;
  std::size_t next_ = 0;
};

class PushItems : public Items {
 public:
  PushItems(Controller& controller, std::uint64_t since) : controller_(controller), since_(since) {}

  std::vector<std::string_view> Arrays() const override { return {"plans"}; }
  std::optional<Item> Next() override {
    const auto& entries = controller_.state().push_log.entries();
    const auto next = std::ranges::upper_bound(entries, since_, {}, &PushedPath::sequence);
    if (next == entries.end()) return std::nullopt;
    since_ = next->sequence;
    return Item{std::to_string(since_), PushView(controller_, *next)};
  }

 private:
  Controller& controller_;
  std::uint64_t since_;
};

class EventItems : public Items {
 public:
  EventItems(Controller& controller, std::uint64_t since)
      : controller_(controller), since_(since) {}

  std::vector<std::string_view> Arrays() const override { return {"events"}; }
  std::optional<Item> Next() override {
    const auto next = controller_.state().history.Since(since_, 1);
    if (next.empty()) return std::nullopt;
    since_ = next.front().sequence;
    return Item{std::to_string(since_), EventView(controller_, next.front())};
  }
  std::string Tail(std::size_t /*written*/) override {
    const std::uint64_t last = controller_.state().history.last_sequence();
    return ",\"last_sequence\":" + io::JsonWriter().Integer(static_cast<std::int64_t>(last)).Text();
  }

 private:
  Controller& controller_;
  std::uint64_t since_;
};

constexpr std::string_view kNodePrefix = "node:";
constexpr std::string_view kLinkPrefix = "link:";

// Nodes and links have consecutive numbers: the first link follows the last node.
class TopologyItems : public Items {
 public:
  TopologyItems(const State& state, std::size_t first) : state_(state), next_(first) {}

  std::vector<std::string_view> Arrays() const override { return {"nodes", "links"}; }
  std::string Head() override {
    return fmt::format("\"name\":{},", io::JsonWriter().String(state_.topology.name()).Text());
  }
  std::optional<Item> Next() override {
    const std::size_t nodes = state_.topology.nodes().size();
    const std::size_t index = next_++;
    if (index < nodes) {
      const fabric::NodeId id(static_cast<std::int32_t>(index));
      return Item{fmt::format("{}{}", kNodePrefix, state_.topology.node(id).id),
                  NodeView(state_, id)};
    }
    if (index - nodes >= state_.topology.links().size()) return std::nullopt;
    const fabric::LinkId id(static_cast<std::int32_t>(index - nodes));
    return Item{.name = fmt::format("{}{}", kLinkPrefix, state_.topology.link(id).id),
                .json = BuiltLinkView(state_, id),
                .array = 1};
  }

 private:
  const State& state_;
  std::size_t next_;
};

// The position of the item behind `after`; none for an unknown node or link.
std::optional<std::size_t> PlaceBehind(const fabric::Topology& topology, std::string_view after) {
  if (after.empty()) return 0;
  if (after.starts_with(kNodePrefix)) {
    const auto node = topology.FindNode(after.substr(kNodePrefix.size()));
    return node ? std::optional(node->Index() + 1) : std::nullopt;
  }
  if (!after.starts_with(kLinkPrefix)) return std::nullopt;
  const auto link = topology.FindLink(after.substr(kLinkPrefix.size()));
  return link ? std::optional(topology.nodes().size() + link->Index() + 1) : std::nullopt;
}

Result<AgentId> AgentOf(const State& state, std::string_view name) {
  if (const auto id = state.agents.FindByName(name)) return *id;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("after: there is no agent \"{}\"", name));
}

// Parses the `after` of a list whose items have numbers up to `most`; 0 for "".
Result<std::uint64_t> NumberOf(const std::string& after, std::uint64_t most) {
  if (after.empty()) return 0;
  std::uint64_t number = 0;
  const char* const last = after.data() + after.size();
  const auto [end, error] = std::from_chars(after.data(), last, number);
  if (error == std::errc() && end == last && number <= most) return number;
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("after: invalid value \"{}\" (give \"next\" of the previous page)", after));
}

}  // namespace

void ListFlows(Controller& controller, const Page& page, ListDone done) {
  std::size_t first = 0;
  std::optional<wire::LocalFlowId> after;
  if (!page.after.empty()) {
    const std::size_t colon = std::min(page.after.rfind(':'), page.after.size());
    const std::string_view digits =
        std::string_view(page.after).substr(colon).substr(colon < page.after.size() ? 1 : 0);
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      return done(
          Fail(ErrorCode::kInvalidArgument,
               fmt::format("after: \"{}\" is not the name of a flow (give AGENT:NUMBER, the "
                           "\"next\" of the previous page)",
                           page.after)));
    }
    const Result<AgentId> agent = AgentOf(controller.state(), page.after.substr(0, colon));
    if (!agent) return done(tl::unexpected<Error>(agent.error()));
    first = agent->Index();
    after = wire::LocalFlowId(number);
  }
  const auto link = controller.state().topology.FindLink(page.link);
  if (!link && !page.link.empty()) {
    return done(Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("link: there is no link \"{}\" (`espalier links` lists them)", page.link)));
  }
  WriteList(controller.loop(), std::make_unique<FlowItems>(controller, first, after, link),
            page.limit, std::move(done));
}

void ListNodes(Controller& controller, const Page& page, ListDone done) {
  std::size_t first = 0;
  if (!page.after.empty()) {
    const auto node = controller.state().topology.FindNode(page.after);
    if (!node) {
      return done(Fail(ErrorCode::kInvalidArgument,
                       fmt::format("after: there is no node \"{}\" (give the \"next\" of the "
                                   "previous page)",
                                   page.after)));
    }
    first = node->Index() + 1;
  }
  WriteList(controller.loop(), std::make_unique<NodeItems>(controller, first), page.limit,
            std::move(done));
}

void ListAgents(Controller& controller, const Page& page, ListDone done) {
  std::size_t first = 0;
  if (!page.after.empty()) {
    const Result<AgentId> agent = AgentOf(controller.state(), page.after);
    if (!agent) return done(tl::unexpected<Error>(agent.error()));
    first = agent->Index() + 1;
  }
  WriteList(controller.loop(), std::make_unique<AgentItems>(controller, first), page.limit,
            std::move(done));
}

void ListLinks(Controller& controller, const Page& page, ListDone done) {
  std::size_t first = 0;
  if (!page.after.empty()) {
    const auto link = controller.state().topology.FindLink(page.after);
    if (!link) {
      return done(Fail(ErrorCode::kInvalidArgument,
                       fmt::format("after: there is no link \"{}\"", page.after)));
    }
    first = link->Index() + 1;
  }
  WriteList(controller.loop(), std::make_unique<LinkItems>(controller, first), page.limit,
            std::move(done));
}

void ListJobs(Controller& controller, const Page& page, ListDone done) {
  const Result<std::uint64_t> last = NumberOf(page.after, UINT32_MAX - 1);
  if (!last) return done(tl::unexpected<Error>(last.error()));
  const auto first = page.after.empty() ? 0 : static_cast<std::uint32_t>(*last + 1);
  WriteList(controller.loop(), std::make_unique<JobItems>(controller, first), page.limit,
            std::move(done));
}

void ListPushes(Controller& controller, const Page& page, ListDone done) {
  const Result<std::uint64_t> last = NumberOf(page.after, UINT64_MAX);
  if (!last) return done(tl::unexpected<Error>(last.error()));
  const std::uint64_t since = page.after.empty() ? page.since : *last;
  WriteList(controller.loop(), std::make_unique<PushItems>(controller, since), page.limit,
            std::move(done));
}

void ListEvents(Controller& controller, const Page& page, ListDone done) {
  const Result<std::uint64_t> last = NumberOf(page.after, UINT64_MAX);
  if (!last) return done(tl::unexpected<Error>(last.error()));
  const std::uint64_t since = page.after.empty() ? page.since : *last;
  WriteList(controller.loop(), std::make_unique<EventItems>(controller, since), page.limit,
            std::move(done));
}

void ListTopology(Controller& controller, const Page& page, ListDone done) {
  const State& state = controller.state();
  const auto first = PlaceBehind(state.topology, page.after);
  if (!first) {
    return done(
        Fail(ErrorCode::kInvalidArgument,
             fmt::format("after: there is no \"{}\" (give node:ID or link:ID, the \"next\" of "
                         "the previous page)",
                         page.after)));
  }
  WriteList(controller.loop(), std::make_unique<TopologyItems>(state, *first), page.limit,
            std::move(done));
}

}  // namespace espalier::controller
