#include "controller/api/live_feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controller/api/flow_view.h"
#include "controller/api/job_view.h"
#include "controller/api/link_view.h"
#include "controller/api/views.h"

namespace espalier::controller {
namespace {

using namespace std::chrono_literals;

constexpr Duration kMinInterval = 500ms;
constexpr int kWorkShare = 10;  // of the time, one part is spent here at most
constexpr Duration kPingInterval = 5s;
constexpr std::size_t kMostEnds = 65'536;
constexpr std::uint64_t kMostEvents = 200;

// A part of the state, as it was last told.
struct Record {
  std::uint64_t digest = 0;   // 0: there is none
  std::uint64_t changed = 0;  // the change that it was last part of
  std::string json;
};

// `,"key":[...]` of the records that changed after `since`; nothing where there is none.
void AppendRecords(std::string& out, std::string_view key, const std::vector<Record>& records,
                   std::uint64_t since) {
  bool first = true;
  for (const Record& record : records) {
    if (record.digest == 0 || record.changed <= since) continue;
    out += first ? fmt::format(",\"{}\":[", key) : ",";
    out += record.json;
    first = false;
  }
  if (!first) out += ']';
}

void AppendWhole(std::string& out, std::string_view key, const Record& record,
                 std::uint64_t since) {
  if (record.changed > since) out += fmt::format(",\"{}\":{}", key, record.json);
}

}  // namespace

// The state by change, for all clients.
class LiveFeed::Journal {
 public:
  explicit Journal(Controller& controller) : controller_(&controller), loop_(controller.loop()) {}

  void Add(Client* client) {
    clients_.push_back(client);
    if (!timer_) Refresh();
  }
  void Remove(Client* client) { std::erase(clients_, client); }
  std::size_t client_count() const { return clients_.size(); }

  // The controller goes: no news from here on.
  void Close() {
    controller_ = nullptr;
    timer_.reset();
  }
  bool is_closed() const { return controller_ == nullptr; }

  std::uint64_t change() const { return change_; }
  std::uint64_t last_event() const { return last_event_; }
  TimePoint Now() const { return loop_.Now(); }
  // What is newer, as one server-sent event.
  std::string Compose(std::uint64_t since, std::uint64_t events_since) const;

 private:
  struct FlowEnd {
    std::uint64_t changed = 0;
    std::string name;
  };

  void Refresh();
  void RefreshFlows(State& state);
  void RefreshFlow(State& state, FlowSlot slot);
  void RefreshLinks(const State& state, const LinkTraffic& traffic);
  void RefreshAgents(const State& state);
  void RefreshWhole(Record& record, std::string json);
  void EndFlow(std::size_t slot);
  // True where the digest is another than before: the text is to be made anew.
  bool IsNews(Record& record, std::uint64_t digest);
  void AppendEnds(std::string& out, std::uint64_t since) const;
  void AppendEvents(std::string& out, std::uint64_t since) const;

  Controller* controller_;
  EventLoop& loop_;
  std::vector<Client*> clients_;
  TimerPtr timer_;

  std::uint64_t change_ = 0;       // the latest
  std::uint64_t next_change_ = 1;  // of what the refresh at hand finds
  std::uint64_t oldest_ = 1;       // differences to what is older are not known any more
  std::uint64_t last_event_ = 0;   // as EventHistory counts
  Record status_;
  Record jobs_;
  std::vector<Record> flows_;            // by slot
  std::vector<std::string> flow_names_;  // by slot
  std::deque<FlowEnd> flow_ends_;        // oldest first
  std::vector<Record> links_;            // by link
  std::vector<Record> agents_;           // by agent
};

class LiveFeed::Client : public io::HttpStream {
 public:
  explicit Client(std::shared_ptr<Journal> journal) : journal_(std::move(journal)) {
    journal_->Add(this);
    last_piece_ = journal_->Now();
  }
  ~Client() override { journal_->Remove(this); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::string Next() override {
    if (journal_->is_closed()) return "";
    const TimePoint now = journal_->Now();
    if (change_ == journal_->change()) {
      if (now - last_piece_ < kPingInterval) return "";
      last_piece_ = now;
      return ": nothing new\n\n";  // the one way to find that a client is gone
    }
    last_piece_ = now;
    std::string piece = journal_->Compose(change_, event_);
    change_ = journal_->change();
    event_ = journal_->last_event();
    return piece;
  }

 private:
  std::shared_ptr<Journal> journal_;
  std::uint64_t change_ = 0;  // up to which it has all
  std::uint64_t event_ = 0;
  TimePoint last_piece_;
};

void LiveFeed::Journal::Refresh() {
  const TimePoint start = loop_.Now();
  State& state = controller_->state();
  next_change_ = change_ + 1;
  RefreshFlows(state);
  const LinkTraffic traffic = MeasureLinks(state);
  RefreshLinks(state, traffic);
  RefreshAgents(state);
  RefreshWhole(status_, StatusView(*controller_));
  RefreshWhole(jobs_, LiveJobs(state, start, traffic.paths));
  if (last_event_ != state.history.last_sequence()) change_ = next_change_;
  last_event_ = state.history.last_sequence();
  const std::vector<Client*> clients = clients_;
  for (Client* client : clients) {
    if (client->wake) client->wake();
  }
  const Duration spent = loop_.Now() - start;
  timer_ = loop_.After(std::max(kMinInterval, spent * kWorkShare), [this] {
    timer_.reset();
    if (!clients_.empty()) Refresh();
  });
}

bool LiveFeed::Journal::IsNews(Record& record, std::uint64_t digest) {
  digest = std::max<std::uint64_t>(digest, 1);
  if (record.digest == digest) return false;
  record.digest = digest;
  record.changed = change_ = next_change_;
  return true;
}

void LiveFeed::Journal::RefreshFlows(State& state) {
  std::size_t next = 0;  // the first slot that was not looked at
  const auto end_up_to = [&](std::size_t slot) {
    for (; next < slot; ++next) EndFlow(next);
  };
  for (const FlowSlot slot : state.flows.All()) {
    if (slot.Index() >= flows_.size()) {
      flows_.resize(slot.Index() + 1);
      flow_names_.resize(slot.Index() + 1);
    }
    end_up_to(slot.Index());
    RefreshFlow(state, slot);
    ++next;
  }
  end_up_to(flows_.size());
}

void LiveFeed::Journal::RefreshFlow(State& state, FlowSlot slot) {
  Record& record = flows_[slot.Index()];
  if (!IsNews(record, LiveFlowDigest(state, slot))) return;
  std::string name = state.FlowName(state.flows.At(slot));
  if (name != flow_names_[slot.Index()]) {  // the place was another's
    const Record news = record;
    EndFlow(slot.Index());
    record = news;
    flow_names_[slot.Index()] = std::move(name);
  }
  record.json = LiveFlow(state, slot);
}

void LiveFeed::Journal::EndFlow(std::size_t slot) {
  flows_[slot] = {};
  if (flow_names_[slot].empty()) return;
  change_ = next_change_;
  flow_ends_.push_back({change_, std::exchange(flow_names_[slot], {})});
  if (flow_ends_.size() > kMostEnds) {
    oldest_ = flow_ends_.front().changed;
    flow_ends_.pop_front();
  }
}

void LiveFeed::Journal::RefreshLinks(const State& state, const LinkTraffic& traffic) {
  links_.resize(state.topology.links().size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    if (!IsNews(links_[i], LinkDigest(state, id, traffic))) continue;
    io::JsonWriter json;
    WriteLink(json, state, id, traffic);
    links_[i].json = json.Text();
  }
}

void LiveFeed::Journal::RefreshAgents(const State& state) {
  agents_.resize(state.agents.size());
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const AgentId id(static_cast<std::int32_t>(i));
    const Agent& agent = state.agents.At(id);
    std::uint64_t digest = agent.instance;
    Mix(digest, state.flows.CountOfAgent(id) << 1 | (agent.peer ? 1 : 0));
    Mix(digest, agent.generation);
    Mix(digest, agent.acked_generation);
    if (IsNews(agents_[i], digest)) agents_[i].json = LiveAgent(state, id);
  }
}

void LiveFeed::Journal::RefreshWhole(Record& record, std::string json) {
  if (IsNews(record, std::hash<std::string>()(json))) record.json = std::move(json);
}

void LiveFeed::Journal::AppendEnds(std::string& out, std::uint64_t since) const {
  const auto first = std::upper_bound(
      flow_ends_.begin(), flow_ends_.end(), since,
      [](std::uint64_t change, const FlowEnd& end) { return change < end.changed; });
  if (first == flow_ends_.end()) return;
  io::JsonWriter names;
  names.BeginArray();
  for (auto end = first; end != flow_ends_.end(); ++end) names.String(end->name);
  names.EndArray();
  out += fmt::format(",\"ended\":{}", names.Text());
}

void LiveFeed::Journal::AppendEvents(std::string& out, std::uint64_t since) const {
  const std::uint64_t last = controller_->state().history.last_sequence();
  const auto events = controller_->state().history.Since(
      std::max(since, last - std::min(last, kMostEvents)), kMostEvents);
  if (!events.empty()) out += fmt::format(",\"events\":{}", LiveEvents(*controller_, events));
}

std::string LiveFeed::Journal::Compose(std::uint64_t since, std::uint64_t events_since) const {
  const bool whole = since < oldest_;
  if (whole) since = 0;
  std::string data = fmt::format("event: {}\nid: {}\ndata: {{\"change\":{}",
                                 whole ? "snapshot" : "update", change_, change_);
  AppendWhole(data, "status", status_, since);
  if (!whole) AppendEnds(data, since);  // before the flows: a name may be another's by now
  AppendRecords(data, "flows", flows_, since);
  AppendRecords(data, "links", links_, since);
  AppendRecords(data, "agents", agents_, since);
  AppendWhole(data, "jobs", jobs_, since);
  AppendEvents(data, whole ? 0 : events_since);
  data += "}\n\n";
  return data;
}

LiveFeed::LiveFeed(Controller& controller) : journal_(std::make_shared<Journal>(controller)) {}

LiveFeed::~LiveFeed() { journal_->Close(); }

std::shared_ptr<io::HttpStream> LiveFeed::Connect() {
  if (journal_->client_count() >= kMostClients) return nullptr;
  return std::make_shared<Client>(journal_);
}

}  // namespace espalier::controller
