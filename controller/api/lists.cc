#include "controller/api/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "common/io/json.h"
#include "controller/api/flow_census.h"
#include "controller/api/flow_view.h"
#include "controller/api/job_view.h"
#include "controller/api/link_view.h"
#include "controller/api/views.h"

namespace espalier::controller {
namespace {

// Something of a list: its name and what is to be told of it.
struct Item {
  std::string name;
  std::string json;
};

// The items of a list one after the other; none at its end.
class Items {
 public:
  virtual ~Items() = default;
  // Gets ready for the first item, with the work of one turn. False: there is more to do.
  virtual bool Prepare() { return true; }
  // Fields of the list's own, before the items: `"name":value,` each. Once prepared.
  virtual std::string Head() { return ""; }
  virtual std::optional<Item> Next() = 0;
};

// A list that is being written: kept by the turn that it has posted.
class Writing : public std::enable_shared_from_this<Writing> {
 public:
  Writing(EventLoop& loop, std::string_view key, std::unique_ptr<Items> items,
          std::optional<std::size_t> limit, ListDone done)
      : loop_(loop), items_(std::move(items)), limit_(limit), done_(std::move(done)), key_(key) {}

  void Write() {
    if (text_.empty()) {
      if (!items_->Prepare()) return WriteOn();
      text_ = fmt::format("{{{}\"{}\":[", items_->Head(), key_);
    }
    for (std::size_t i = 0; i < kListItemsPerTurn; ++i) {
      std::optional<Item> item = items_->Next();
      if (!item) return End("");
      if (limit_ && written_ == *limit_) return End(last_);
      if (written_++ > 0) text_ += ',';
      text_ += item->json;
      last_ = std::move(item->name);
    }
    WriteOn();
  }

 private:
  void WriteOn() {
    loop_.Post([self = shared_from_this()] { self->Write(); });
  }
  void End(const std::string& next) {
    text_ += ']';
    if (!next.empty()) text_ += ",\"next\":" + io::JsonWriter().String(next).Text();
    text_ += '}';
    done_(std::move(text_));
  }

  EventLoop& loop_;
  const std::unique_ptr<Items> items_;
  const std::optional<std::size_t> limit_;
  const ListDone done_;
  const std::string key_;
  std::size_t written_ = 0;
  std::string last_;
  std::string text_;
};

class AgentItems : public Items {
 public:
  AgentItems(Controller& controller, std::size_t first) : controller_(controller), next_(first) {}

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

// Flows by agent, one after the other. Slots of flows are used again, so the place is the flow that
// was given last.
class FlowWalk {
 public:
  FlowWalk(State& state, std::size_t agent, std::optional<wire::LocalFlowId> after)
      : state_(state), agent_(agent), after_(after) {}

  std::optional<FlowSlot> Next() {
    for (; agent_ < state_.agents.size(); ++agent_, after_.reset()) {
      const auto slot = state_.flows.FindAfter(AgentId(static_cast<std::int32_t>(agent_)), after_);
      if (!slot) continue;
      after_ = state_.flows.At(*slot).local;
      return slot;
    }
    return std::nullopt;
  }

 private:
  State& state_;
  std::size_t agent_;
  std::optional<wire::LocalFlowId> after_;  // of this agent: the last that was given
};

class FlowItems : public Items {
 public:
  FlowItems(Controller& controller, std::size_t agent, std::optional<wire::LocalFlowId> after)
      : controller_(controller), walk_(controller.state(), agent, after) {}

  std::optional<Item> Next() override {
    const auto slot = walk_.Next();
    if (!slot) return std::nullopt;
    State& state = controller_.state();
    io::JsonWriter json;
    WriteFlow(json, state, *slot, controller_.Now());
    return Item{state.FlowName(state.flows.At(*slot)), json.Text()};
  }

 private:
  Controller& controller_;
  FlowWalk walk_;
};

// Items that say what all flows do.
class CountedItems : public Items {
 public:
  explicit CountedItems(Controller& controller)
      : controller_(controller), census_(controller.state()), walk_(controller.state(), 0, {}) {}

  bool Prepare() override {
    for (std::size_t i = 0; i < kListItemsPerTurn; ++i) {
      const auto slot = walk_.Next();
      if (!slot) return true;
      census_.Count(controller_.state(), *slot);
    }
    return false;
  }

 protected:
  Controller& controller() { return controller_; }
  const FlowCensus& census() const { return census_; }

 private:
  Controller& controller_;
  FlowCensus census_;
  FlowWalk walk_;
};

class LinkItems : public CountedItems {
 public:
  LinkItems(Controller& controller, std::size_t first) : CountedItems(controller), next_(first) {}

  std::string Head() override {
    return fmt::format("\"version\":{},\"max_link_flows\":{},",
                       controller().state().topology.version(), census().max_link_flows());
  }
  std::optional<Item> Next() override {
    const State& state = controller().state();
    if (next_ >= state.topology.links().size()) return std::nullopt;
    const fabric::LinkId id(static_cast<std::int32_t>(next_++));
    io::JsonWriter json;
    WriteLink(json, state, id, census().traffic());
    return Item{state.topology.link(id).id, json.Text()};
  }

 private:
  std::size_t next_;
};

class JobItems : public CountedItems {
 public:
  JobItems(Controller& controller, std::uint32_t first) : CountedItems(controller), first_(first) {}

  bool Prepare() override {
    if (!CountedItems::Prepare()) return false;
    const State& state = controller().state();
    jobs_ = JobsToShow(state, controller().Now(), census());
    next_ = static_cast<std::size_t>(std::ranges::lower_bound(jobs_, first_) - jobs_.begin());
    return true;
  }
  std::optional<Item> Next() override {
    if (next_ >= jobs_.size()) return std::nullopt;
    const State& state = controller().state();
    const std::uint32_t job = jobs_[next_++];
    return Item{std::to_string(job), JobView(state, controller().Now(), job, census())};
  }

 private:
  const std::uint32_t first_;
  std::vector<std::uint32_t> jobs_;
  std::size_t next_ = 0;
};

class PlanItems : public Items {
 public:
  PlanItems(Controller& controller, std::uint64_t since) : controller_(controller), since_(since) {}

  std::optional<Item> Next() override {
    const auto& entries = controller_.state().plans.entries();
    const auto next = std::ranges::upper_bound(entries, since_, {}, &PlanEntry::sequence);
    if (next == entries.end()) return std::nullopt;
    since_ = next->sequence;
    return Item{std::to_string(since_), PlanView(controller_, *next)};
  }

 private:
  Controller& controller_;
  std::uint64_t since_;
};

Result<AgentId> AgentOf(const State& state, std::string_view name) {
  if (const auto id = state.agents.FindByName(name)) return *id;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("after: there is no agent \"{}\"", name));
}

// Of lists whose items are known by numbers; 0 for "".
Result<std::uint64_t> NumberOf(const std::string& after) {
  if (after.empty()) return 0;
  std::uint64_t number = 0;
  const char* const last = after.data() + after.size();
  const auto [end, error] = std::from_chars(after.data(), last, number);
  if (error == std::errc() && end == last && number < UINT32_MAX) return number;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("after: \"{}\" is none that a page before had as \"next\"", after));
}

void Write(Controller& controller, std::string_view key, std::unique_ptr<Items> items,
           const Page& page, ListDone done) {
  std::make_shared<Writing>(controller.loop(), key, std::move(items), page.limit, std::move(done))
      ->Write();
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
      return done(Fail(ErrorCode::kInvalidArgument,
                       fmt::format("after: \"{}\" is no name of a flow (AGENT:NUMBER, as \"next\" "
                                   "of the page before says)",
                                   page.after)));
    }
    const Result<AgentId> agent = AgentOf(controller.state(), page.after.substr(0, colon));
    if (!agent) return done(tl::unexpected<Error>(agent.error()));
    first = agent->Index();
    after = wire::LocalFlowId(number);
  }
  Write(controller, "flows", std::make_unique<FlowItems>(controller, first, after), page,
        std::move(done));
}

void ListAgents(Controller& controller, const Page& page, ListDone done) {
  std::size_t first = 0;
  if (!page.after.empty()) {
    const Result<AgentId> agent = AgentOf(controller.state(), page.after);
    if (!agent) return done(tl::unexpected<Error>(agent.error()));
    first = agent->Index() + 1;
  }
  Write(controller, "agents", std::make_unique<AgentItems>(controller, first), page,
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
  Write(controller, "links", std::make_unique<LinkItems>(controller, first), page, std::move(done));
}

void ListJobs(Controller& controller, const Page& page, ListDone done) {
  const Result<std::uint64_t> last = NumberOf(page.after);
  if (!last) return done(tl::unexpected<Error>(last.error()));
  const auto first = page.after.empty() ? 0 : static_cast<std::uint32_t>(*last + 1);
  Write(controller, "jobs", std::make_unique<JobItems>(controller, first), page, std::move(done));
}

void ListPlans(Controller& controller, const Page& page, ListDone done) {
  const Result<std::uint64_t> last = NumberOf(page.after);
  if (!last) return done(tl::unexpected<Error>(last.error()));
  const std::uint64_t since = page.after.empty() ? page.since : *last;
  Write(controller, "plans", std::make_unique<PlanItems>(controller, since), page, std::move(done));
}

}  // namespace espalier::controller
