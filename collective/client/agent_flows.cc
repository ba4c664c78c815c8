#include "collective/client/agent_flows.h"

#include <netinet/in.h>

#include <algorithm>
#include <chrono>

namespace espalier::client {
namespace {

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

// One connection as a flow. `edges` is odd while messages wait.
class AgentFlow : public transport::SendWatch {
 public:
  AgentFlow(espalier_flow* flow, std::uint16_t port) : flow_(flow), port_(port), last_ns_(NowNs()) {
    espalier_flow_edges(flow_, edges_, last_ns_, 0);
  }
  ~AgentFlow() override { espalier_flow_close(flow_); }
  AgentFlow(const AgentFlow&) = delete;
  AgentFlow& operator=(const AgentFlow&) = delete;

  void HandleQueued(std::uint64_t bytes) override {
    const bool was_idle = waiting_ == 0;
    waiting_ += std::max<std::uint64_t>(bytes, 1);
    // Bytes first: the agent must not see a busy flow that has nothing to send.
    Tell();
    if (was_idle) Change();
  }
  void HandleSent(std::uint64_t bytes) override {
    const std::uint64_t counted = std::max<std::uint64_t>(bytes, 1);
    waiting_ -= std::min(waiting_, counted);
    sent_ += bytes;
    if (waiting_ == 0) Change();
    Tell();
  }

 private:
  void Tell() { espalier_flow_progress(flow_, waiting_, 0, sent_, port_); }
  void Change() {
    const std::uint64_t now = NowNs();
    ++edges_;
    espalier_flow_edges(flow_, edges_, now, now - last_ns_);
    last_ns_ = now;
  }

  espalier_flow* const flow_;
  const std::uint16_t port_;
  std::uint32_t edges_ = 2;  // idle since it was opened
  std::uint64_t last_ns_;
  std::uint64_t waiting_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace

AgentFlows::AgentFlows(const std::string& socket, const std::string& job) : job_(job) {
  if (espalier_agent_connect(socket.empty() ? nullptr : socket.c_str(), &agent_) != 0) {
    agent_ = nullptr;
  }
}

AgentFlows::~AgentFlows() { espalier_agent_close(agent_); }

std::unique_ptr<transport::SendWatch> AgentFlows::Watch(const transport::ConnectionEnds& ends) {
  if (agent_ == nullptr || ends.source == ends.destination) return nullptr;
  espalier_flow_desc description = {};
  std::copy_n(job_.data(), std::min<std::size_t>(job_.size(), ESPALIER_JOB_BYTES - 1),
              description.job);
  std::copy(ends.source.bytes().begin(), ends.source.bytes().end(), description.source);
  std::copy(ends.destination.bytes().begin(), ends.destination.bytes().end(),
            description.destination);
  description.protocol = IPPROTO_TCP;
  description.max_paths = 1;
  description.flags = ESPALIER_FLOW_PATH_FIXED;
  description.source_port = ends.source_port;
  description.destination_port = ends.destination_port;
  espalier_flow* flow = nullptr;
  if (espalier_flow_open(agent_, &description, &flow) != 0) return nullptr;
  return std::make_unique<AgentFlow>(flow, ends.source_port);
}

void AgentFlows::Dispatch() {
  // Fails for good if the agent has gone; the flows then tell nobody.
  if (agent_ != nullptr && espalier_agent_dispatch(agent_) != 0) is_lost_ = true;
}

}  // namespace espalier::client
