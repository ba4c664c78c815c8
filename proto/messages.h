#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/strong_id.h"

// The messages between controller and agents as plain values, in the form that services use. Each
// struct mirrors the message of its name in espalier/v1/messages.proto, where its fields are
// explained; proto/encode.h and proto/decode.h convert and validate.
namespace espalier::wire {

inline constexpr std::uint32_t kProtocolMajor = 1;
inline constexpr std::uint32_t kProtocolMinor = 0;

// An agent's own number for a flow; together with the agent it is unique in the cluster.
using LocalFlowId = StrongId<struct LocalFlowTag, std::uint64_t>;

inline constexpr std::uint8_t kProtocolTcp = 6;
inline constexpr std::uint8_t kProtocolUdp = 17;
inline constexpr std::uint16_t kRoceV2Port = 4791;
inline constexpr std::size_t kTrainKeyBytes = 16;
inline constexpr std::uint8_t kMaxTrainPackets = 16;

struct Nic {
  IpAddress address;
  std::string device;
  bool link_up = true;
  bool operator==(const Nic&) const = default;
};

struct Hello {
  std::string name;
  std::uint32_t protocol_major = kProtocolMajor;
  std::uint32_t protocol_minor = kProtocolMinor;
  std::vector<std::string> features;
  std::uint64_t highest_epoch = 0;
  std::uint64_t applied_generation = 0;
  std::vector<Nic> nics;
  bool operator==(const Hello&) const = default;
};

struct Welcome {
  bool accepted = false;
  std::string reason;
  std::uint32_t protocol_major = kProtocolMajor;
  std::uint32_t protocol_minor = kProtocolMinor;
  std::uint64_t epoch = 0;
  std::uint64_t heartbeat_interval_us = 0;
  std::vector<std::string> features;
  std::uint64_t report_interval_us = 0;
  std::uint64_t max_messages_per_second = 0;
  std::uint64_t max_bytes_per_second = 0;
  std::uint64_t max_entries_per_second = 0;
  bool operator==(const Welcome&) const = default;
};

// A queue pair of a host.
struct QueuePair {
  IpAddress address;  // of its NIC
  std::uint32_t number = 0;
  bool operator==(const QueuePair&) const = default;
};

struct Heartbeat {
  std::uint64_t sequence = 0;
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  std::uint64_t report_interval_us = 0;
  std::vector<QueuePair> wanted;
  bool operator==(const Heartbeat&) const = default;
};

enum class FlowState : std::uint8_t { kActive, kIdle, kStalled };

// The properties of a flow that do not change. `job` and the addresses index the report's tables.
struct OpenedFlow {
  LocalFlowId id;
  std::uint32_t job = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint8_t protocol = kProtocolUdp;
  std::uint16_t destination_port = kRoceV2Port;
  std::uint32_t local_qpn = 0;
  std::uint32_t remote_qpn = 0;
  std::uint8_t max_paths = 1;
  bool movable = true;
  std::uint64_t age_us = 0;
  std::uint16_t source_port = 0;
  bool steered = false;
  // The ports of all paths in force, in order, if it is split or rerouted locally; 0: unknown.
  std::vector<std::uint16_t> path_ports;
  bool keeps_rate = false;
  bool keeps_weights = false;
  bool path_fixed = false;
  // How its transport waits: until it repeats what is not acknowledged (0: unknown; the largest
  // value: so long or longer), and how often it repeats it.
  std::uint32_t timeout_us = 0;
  std::uint32_t repetitions = 0;
  bool operator==(const OpenedFlow&) const = default;
};

struct FlowProgress {
  LocalFlowId id;
  std::uint64_t remaining_bytes = 0;
  std::uint64_t outstanding_bytes = 0;
  std::uint64_t achieved_bps = 0;
  FlowState state = FlowState::kActive;
  std::uint64_t sent_bytes = 0;  // since it was opened; also 0 if the agent does not report it
  // Changes between busy and idle since it was opened. Odd: busy; even: idle; 0: not reported.
  std::uint32_t edges = 0;
  std::uint64_t edge_age_us = 0;    // from the last edge to the report
  std::uint16_t duty_permille = 0;  // not 0: it changes too often, counts as busy, and was so
                                    // for this part of the last second
  bool operator==(const FlowProgress&) const = default;
};

struct FlowReport {
  bool full = false;
  std::uint64_t sequence = 0;
  std::vector<std::string> jobs;
  std::vector<IpAddress> addresses;
  std::vector<OpenedFlow> opened;
  std::vector<FlowProgress> progress;
  std::vector<LocalFlowId> ended;
  std::uint64_t sent_us = 0;  // the agent's steady clock, of any origin; 0: not reported
  bool operator==(const FlowReport&) const = default;
};

enum class PathReason : std::uint8_t {
  kAssigned,
  kPredicted,
  kPathDead,
  kRecomputed,
  kRemapped,
  kStandby,
};

struct FlowPath {
  std::uint16_t source_port = 0;
  std::uint32_t weight = 1;
  std::uint32_t path_id = 0;
  std::string encoding;
  std::vector<std::uint32_t> links{};
  bool IsStandby() const { return weight == 0; }
  bool operator==(const FlowPath&) const = default;
};

struct PathSet {
  LocalFlowId flow;
  std::vector<FlowPath> paths;
  std::uint64_t max_rate_bps = 0;
  PathReason reason = PathReason::kAssigned;
  bool operator==(const PathSet&) const = default;
};

struct PathPush {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  bool full = false;
  std::vector<PathSet> sets;
  std::vector<LocalFlowId> withdrawn;
  std::uint32_t plans = 0;
  std::vector<LocalFlowId> unsteered{};
  bool operator==(const PathPush&) const = default;
};

enum class AckStatus : std::uint8_t { kApplied, kStaleEpoch, kNeedFull, kFailed };

struct Ack {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  AckStatus status = AckStatus::kApplied;
  std::string detail;
  std::vector<LocalFlowId> failed_flows;
  bool operator==(const Ack&) const = default;
};

struct ProbeOrder {
  std::uint64_t order = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t destination_port = kRoceV2Port;
  std::uint32_t destination_qpn = 0;
  std::uint8_t flow_protocol = kProtocolUdp;
  std::vector<std::uint16_t> source_ports;
  std::vector<std::uint8_t> ttls;
  std::uint32_t probes_per_second = 1000;
  std::uint64_t timeout_us = 100'000;
  bool operator==(const ProbeOrder&) const = default;
};

struct ProbeAnswer {
  std::uint16_t source_port = 0;
  std::uint8_t ttl = 0;
  IpAddress responder;
  std::uint32_t rtt_us = 0;
  bool operator==(const ProbeAnswer&) const = default;
};

struct ProbeReport {
  std::uint64_t order = 0;
  bool done = false;
  std::uint32_t sent = 0;
  std::vector<ProbeAnswer> answers;
  std::string error;
  bool operator==(const ProbeReport&) const = default;
};

enum class PathVerdict : std::uint8_t { kGood, kSlow, kDead, kLocallyRerouted };
enum class PathBasis : std::uint8_t { kClaimed, kProbed, kKernel, kDevice };

struct FlowHealth {
  LocalFlowId flow;
  std::uint32_t path_id = 0;
  std::uint16_t source_port = 0;
  std::uint64_t achieved_bps = 0;
  std::uint64_t planned_bps = 0;
  std::uint32_t retries = 0;
  std::uint32_t out_of_sequence = 0;
  std::uint32_t cnp = 0;
  std::uint32_t rtt_us = 0;
  PathVerdict verdict = PathVerdict::kGood;
  // kLocallyRerouted: the path that the flow left still answered probes, so it is what comes back
  // that is lost.
  bool answered = false;
  std::uint16_t left_port = 0;  // kLocallyRerouted: that the flow has left; 0: unknown
  // Not 0: the flow left a dead path, and its bytes were acknowledged again after this time.
  std::uint64_t recovered_us = 0;
  PathBasis basis = PathBasis::kClaimed;
  bool operator==(const FlowHealth&) const = default;
};

struct PathHealth {
  std::vector<FlowHealth> flows;
  bool operator==(const PathHealth&) const = default;
};

struct LinkEvent {
  std::string link;
  IpAddress address;
  bool up = true;
  std::string source;
  bool operator==(const LinkEvent&) const = default;
};

struct ConnectionNics {
  std::uint32_t channel = 0;
  IpAddress source;
  IpAddress destination;
  bool operator==(const ConnectionNics&) const = default;
};

struct PeerPorts {
  std::uint32_t rank = 0;
  IpAddress address;
  std::vector<std::uint16_t> source_ports;
  std::uint16_t destination_port = 0;
  std::vector<std::uint32_t> channels;  // as many as source_ports
  std::vector<ConnectionNics> connections;
  bool operator==(const PeerPorts&) const = default;
};

struct RankPlan {
  std::uint64_t epoch = 0;
  std::uint64_t generation = 0;
  std::string job;
  std::uint32_t rank = 0;
  std::string program;
  std::uint32_t program_version = 0;
  std::vector<PeerPorts> peers;
  std::uint32_t ranks = 0;
  std::uint64_t version = 0;
  IpAddress address;  // none: the job has ended
  std::uint16_t listen_port = 0;
  bool offload = false;
  bool urgent = false;
  bool verbs = false;
  // A secret that no log or view shows. Empty: the controller is an older one.
  std::string job_key;
  std::vector<IpAddress> rank_addresses;  // by rank, of all ranks; or empty
  std::string user;                       // common/base/users/local_user.h; empty: not given
  std::vector<IpAddress> listen_addresses;
  bool operator==(const RankPlan&) const = default;
};

struct CollectiveReport {
  std::string job;
  std::uint32_t rank = 0;
  std::uint64_t sequence = 0;
  std::string collective;
  std::uint64_t bytes = 0;
  std::uint64_t duration_us = 0;
  std::string error;
  bool operator==(const CollectiveReport&) const = default;
};

// A train to send: `source` and `destination` index the order's addresses.
struct Train {
  std::uint64_t number = 0;
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint16_t source_port = 0;
  std::uint8_t protocol = kProtocolUdp;
  std::uint8_t dscp = 0;
  std::uint64_t start_us = 0;  // after the order arrives
  bool operator==(const Train&) const = default;
};

struct ExpectedTrain {
  std::uint64_t number = 0;
  std::uint64_t until_us = 0;  // after the order arrives
  // What decides the path of its packets. `source` indexes the order's addresses.
  std::uint32_t source = 0;
  std::uint16_t source_port = 0;  // 0: all three are unknown
  std::uint8_t protocol = kProtocolUdp;
  bool operator==(const ExpectedTrain&) const = default;
};

struct TrainOrder {
  std::string key;  // 16 bytes
  std::uint16_t destination_port = 0;
  std::uint8_t packets = 0;
  std::uint64_t gap_us = 0;
  bool urgent = false;
  std::vector<IpAddress> addresses;
  std::vector<Train> trains;
  std::vector<ExpectedTrain> expected;
  bool operator==(const TrainOrder&) const = default;
};

struct SentTrain {
  std::uint64_t number = 0;
  std::uint16_t sent_mask = 0;
  std::uint64_t span_us = 0;
  bool operator==(const SentTrain&) const = default;
};

struct ReceivedTrain {
  std::uint64_t number = 0;
  std::uint16_t arrived_mask = 0;
  std::uint16_t marked_mask = 0;
  std::uint64_t digest = 0;
  bool overflowed = false;
  std::vector<std::int64_t> delays_us;  // of the packets that arrived, in order
  bool operator==(const ReceivedTrain&) const = default;
};

struct TrainReport {
  std::vector<SentTrain> sent;
  std::vector<ReceivedTrain> received;
  bool operator==(const TrainReport&) const = default;
};

using Body =
    std::variant<Hello, Welcome, Heartbeat, FlowReport, PathPush, Ack, ProbeOrder, ProbeReport,
                 PathHealth, LinkEvent, RankPlan, CollectiveReport, TrainOrder, TrainReport>;

struct Message {
  std::uint64_t sender_instance = 0;
  Body body;
  bool operator==(const Message&) const = default;
};

}  // namespace espalier::wire
