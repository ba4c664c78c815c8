#include "controller/api/lists.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "common/io/json.h"
#include "controller/api/flow_view.h"
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
  virtual std::optional<Item> Next() = 0;
};

// A list that is being written: kept by the turn that it has posted.
class Writing : public std::enable_shared_from_this<Writing> {
 public:
  Writing(EventLoop& loop, std::string_view key, std::unique_ptr<Items> items,
          std::optional<std::size_t> limit, ListDone done)
      : loop_(loop),
        items_(std::move(items)),
        limit_(limit),
        done_(std::move(done)),
        text_(fmt::format("{{\"{}\":[", key)) {}

  void Write() {
    for (std::size_t i = 0; i < kListItemsPerTurn; ++i) {
      std::optional<Item> item = items_->Next();
      if (!item) return End("");
      if (limit_ && written_ == *limit_) return End(last_);
      if (written_++ > 0) text_ += ',';
      text_ += item->json;
      last_ = std::move(item->name);
    }
    loop_.Post([self = shared_from_this()] { self->Write(); });
  }

 private:
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
  std::size_t written_ = 0;
  std::string last_;
  std::string text_;
};

// Slots of flows are used again, so the place in the list is the flow that was written last.
class FlowItems : public Items {
 public:
  FlowItems(Controller& controller, std::size_t agent, std::optional<wire::LocalFlowId> after)
      : controller_(controller), agent_(agent), after_(after) {}

  std::optional<Item> Next() override {
    State& state = controller_.state();
    for (; agent_ < state.agents.size(); ++agent_, after_.reset()) {
      const auto slot = state.flows.FindAfter(AgentId(static_cast<std::int32_t>(agent_)), after_);
      if (!slot) continue;
      after_ = state.flows.At(*slot).local;
      io::JsonWriter json;
      WriteFlow(json, state, *slot, controller_.Now());
      return Item{state.FlowName(state.flows.At(*slot)), json.Text()};
    }
    return std::nullopt;
  }

 private:
  Controller& controller_;
  std::size_t agent_;
  std::optional<wire::LocalFlowId> after_;  // of this agent: the last that was written
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

Result<AgentId> AgentOf(const State& state, std::string_view name) {
  if (const auto id = state.agents.FindByName(name)) return *id;
  return Fail(ErrorCode::kInvalidArgument, fmt::format("after: there is no agent \"{}\"", name));
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

}  // namespace espalier::controller
