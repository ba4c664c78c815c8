#include "tests/proto/random_message.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "proto/limits.h"

namespace espalier::wire {
namespace {

constexpr std::uint64_t kAnyId = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kAnyQuantity = std::numeric_limits<std::int64_t>::max();
constexpr std::uint64_t kYearUs = 31'557'600'000'000;
constexpr std::uint32_t kAnyQpn = (1U << 24U) - 1;

class Generator {
 public:
  Generator(std::size_t max_entries, std::mt19937_64& random)
      : max_entries_(max_entries), random_(random) {}

  template <typename Value = std::uint64_t>
  Value Number(std::uint64_t min, std::uint64_t max) {
    // Often a limit, as that is where checks go wrong.
    const auto choice = random_() % 8;
    if (choice == 0) return static_cast<Value>(min);
    if (choice == 1) return static_cast<Value>(max);
    return static_cast<Value>(std::uniform_int_distribution<std::uint64_t>(min, max)(random_));
  }
  bool Bool() { return random_() % 2 == 0; }
  std::size_t Count(std::size_t min = 0) { return Number<std::size_t>(min, max_entries_); }
  std::uint16_t Port() { return Number<std::uint16_t>(1, 65'535); }
  std::uint32_t Any32() { return Number<std::uint32_t>(0, 0xffff'ffffU); }

  std::string Name(std::size_t min_bytes = 1) {
    static constexpr std::string_view kPieces[] = {"a",  "Z", "0",  " ",   "/",
                                                   "\"", "é", "漢", "🙂"};
    std::string name;
    const auto bytes = Number<std::size_t>(min_bytes, 40);
    while (name.size() < bytes) name += kPieces[random_() % std::size(kPieces)];
    return name;
  }
  IpAddress Address() {
    if (Bool()) return IpAddress::FromV4(Any32());
    IpAddress::Bytes bytes{};
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random_()); });
    bytes[0] = 0xfd;
    return IpAddress(bytes);
  }
  std::vector<LocalFlowId> Ids(std::size_t count) {
    std::vector<LocalFlowId> ids;
    auto id = Number(0, kAnyId / 2);
    for (std::size_t i = 0; i < count; ++i) ids.emplace_back(id += 1 + random_() % 1000);
    if (Bool()) std::shuffle(ids.begin(), ids.end(), random_);
    return ids;
  }
  template <typename Make>
  auto List(std::size_t count, Make make) {
    std::vector<decltype(make())> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(make());
    return list;
  }

  void Fill(Hello& to);
  void Fill(Welcome& to);
  void Fill(Heartbeat& to);
  void Fill(FlowReport& to);
  void Fill(PathPush& to);
  void Fill(Ack& to);
  void Fill(ProbeOrder& to);
  void Fill(ProbeReport& to);
  void Fill(TrainOrder& to);
  void Fill(TrainReport& to);
  void Fill(PathHealth& to);
  void Fill(LinkEvent& to);
  void Fill(RankPlan& to);
  void Fill(CollectiveReport& to);

 private:
  OpenedFlow MakeOpened(LocalFlowId id, const FlowReport& report);
  FlowPath MakePath();

  std::size_t max_entries_;
  std::mt19937_64& random_;
};

void Generator::Fill(Hello& to) {
  to.name = Name();
  to.protocol_major = Any32();
  to.protocol_minor = Any32();
  to.features = List(Count(), [&] { return Name(); });
  to.highest_epoch = Number(0, kAnyId);
  to.applied_generation = Number(0, kAnyId);
  to.nics.resize(std::min(Count(), kMaxNics));
  std::uint32_t address = 0x0a00'0000;
  for (Nic& nic : to.nics) {
    nic = {.address = IpAddress::FromV4(++address), .device = Name(0), .link_up = Bool()};
  }
}

void Generator::Fill(Welcome& to) {
  to.accepted = Bool();
  to.reason = Name(0);
  to.protocol_major = Any32();
  to.protocol_minor = Any32();
  to.epoch = Number(0, kAnyId);
  to.heartbeat_interval_us = Number(1, kYearUs);
  to.features = List(Count(), [&] { return Name(); });
  to.report_interval_us = Number(0, kYearUs);
  to.max_messages_per_second = Number(0, kAnyId);
  to.max_bytes_per_second = Number(0, kAnyId);
  to.max_entries_per_second = Number(0, kAnyId);
}

void Generator::Fill(Heartbeat& to) {
  to = {.sequence = Number(0, kAnyId),
        .epoch = Number(0, kAnyId),
        .generation = Number(0, kAnyId),
        .report_interval_us = Number(0, kYearUs),
        .wanted = {}};
  for (std::size_t i = Count(); i > 0; --i) {
    to.wanted.push_back({.address = Address(), .number = Number<std::uint32_t>(1, kAnyQpn)});
  }
}

OpenedFlow Generator::MakeOpened(LocalFlowId id, const FlowReport& report) {
  const auto address = [&] { return Number<std::uint32_t>(0, report.addresses.size() - 1); };
  return {.id = id,
          .job = Number<std::uint32_t>(0, report.jobs.size() - 1),
          .source = address(),
          .destination = address(),
          .protocol = Bool() ? kProtocolUdp : kProtocolTcp,
          .destination_port = Port(),
          .local_qpn = Number<std::uint32_t>(0, kAnyQpn),
          .remote_qpn = Number<std::uint32_t>(0, kAnyQpn),
          .max_paths = Number<std::uint8_t>(1, kMaxPathsPerFlow),
          .movable = Bool(),
          .age_us = Number(0, kYearUs),
          .source_port = Number<std::uint16_t>(0, 65'535),
          .steered = Bool(),
          .path_ports = List(Bool() ? 0 : Number<std::size_t>(0, 16),
                             [&] { return Number<std::uint16_t>(0, 65'535); }),
          .keeps_rate = Bool(),
          .keeps_weights = Bool(),
          .path_fixed = Bool(),
          .timeout_us = Any32(),
          .repetitions = Any32()};
}

void Generator::Fill(FlowReport& to) {
  to.full = Bool();
  to.sequence = Number(0, kAnyId);
  to.jobs = List(Count(1), [&] { return Name(0); });
  to.addresses = List(Count(1), [&] { return Address(); });
  for (const LocalFlowId id : Ids(Count())) to.opened.push_back(MakeOpened(id, to));
  for (const LocalFlowId id : Ids(Count())) {
    to.progress.push_back({.id = id,
                           .remaining_bytes = Number(0, kAnyQuantity),
                           .outstanding_bytes = Number(0, kAnyQuantity),
                           .achieved_bps = Number(0, kAnyQuantity),
                           .state = Number<FlowState>(0, 2),
                           .sent_bytes = Number(0, kAnyQuantity),
                           .edges = Any32(),
                           .edge_age_us = Number(0, kYearUs),
                           .duty_permille = Number<std::uint16_t>(0, 1'000)});
  }
  to.ended = Ids(Count());
  to.sent_us = Number(0, kYearUs);
}

FlowPath Generator::MakePath() {
  return {.source_port = Port(),
          .weight = Number<std::uint32_t>(1, 0xffff'ffffU),
          .path_id = Any32(),
          .encoding = Bool() ? std::string("\x00\xff\x7f", 3) : "",
          .links =
              List(Bool() ? 0 : Number<std::size_t>(0, kMaxLinksPerPath), [&] { return Any32(); })};
}

void Generator::Fill(PathPush& to) {
  to.epoch = Number(0, kAnyId);
  to.generation = Number(0, kAnyId);
  to.full = Bool();
  const std::size_t sets = Count();
  const std::vector<LocalFlowId> ids = Ids(sets + Count());
  for (std::size_t i = 0; i < sets; ++i) {
    to.sets.push_back({.flow = ids[i],
                       .paths = List(Number<std::size_t>(1, 4), [&] { return MakePath(); }),
                       .max_rate_bps = Number(0, kAnyQuantity),
                       .reason = Number<PathReason>(0, 4)});
  }
  to.withdrawn.assign(ids.begin() + static_cast<std::ptrdiff_t>(sets), ids.end());
  to.plans = static_cast<std::uint32_t>(Count());
  if (Bool()) to.unsteered = to.withdrawn;
}

void Generator::Fill(Ack& to) {
  to = {.epoch = Number(0, kAnyId),
        .generation = Number(0, kAnyId),
        .status = Number<AckStatus>(0, 3),
        .detail = Name(0),
        .failed_flows = Ids(Count())};
}

void Generator::Fill(ProbeOrder& to) {
  to.order = Number(0, kAnyId);
  to.source = Address();
  do {
    to.destination = Address();
  } while (to.source.IsV4() != to.destination.IsV4());
  to.destination_port = Port();
  to.destination_qpn = Number<std::uint32_t>(0, kAnyQpn);
  to.flow_protocol = Number<std::uint8_t>(1, 255);
  to.source_ports = List(Count(1), [&] { return Port(); });
  to.ttls = List(Number<std::size_t>(1, 8), [&] { return Number<std::uint8_t>(1, 255); });
  to.probes_per_second = Number<std::uint32_t>(1, kMaxProbesPerSecond);
  to.timeout_us = Number(0, kYearUs);
}

void Generator::Fill(TrainOrder& to) {
  to.key = std::string(kTrainKeyBytes, static_cast<char>(Number<int>(0, 255)));
  to.destination_port = Port();
  to.packets = Number<std::uint8_t>(1, kMaxTrainPackets);
  to.gap_us = Number(0, kYearUs);
  to.urgent = Bool();
  to.addresses = List(Count(1), [&] { return Address(); });
  const auto index = [&] {
    return Number<std::uint32_t>(0, static_cast<std::uint32_t>(to.addresses.size() - 1));
  };
  for (const LocalFlowId id : Ids(Count())) {
    to.trains.push_back({.number = id.value(),
                         .source = index(),
                         .destination = index(),
                         .source_port = Port(),
                         .protocol = Bool() ? kProtocolTcp : kProtocolUdp,
                         .dscp = Number<std::uint8_t>(0, 63),
                         .start_us = Number(0, kYearUs)});
  }
  for (const LocalFlowId id : Ids(Count())) {
    to.expected.push_back({.number = id.value(),
                           .until_us = Number(0, kYearUs),
                           .source = index(),
                           .source_port = Port(),
                           .protocol = Bool() ? kProtocolTcp : kProtocolUdp});
  }
}

void Generator::Fill(TrainReport& to) {
  for (const LocalFlowId id : Ids(Count())) {
    to.sent.push_back({.number = id.value(),
                       .sent_mask = Number<std::uint16_t>(0, 65'535),
                       .span_us = Number(0, kYearUs)});
  }
  for (const LocalFlowId id : Ids(Count())) {
    ReceivedTrain train{.number = id.value(),
                        .arrived_mask = Number<std::uint16_t>(0, 65'535),
                        .digest = Number(0, kAnyId),
                        .overflowed = Bool()};
    train.marked_mask = train.arrived_mask & Number<std::uint16_t>(0, 65'535);
    for (int i = std::popcount(train.arrived_mask); i > 0; --i) {
      train.delays_us.push_back(static_cast<std::int64_t>(Number(0, kYearUs)) -
                                static_cast<std::int64_t>(Number(0, kYearUs)));
    }
    to.received.push_back(std::move(train));
  }
}

void Generator::Fill(ProbeReport& to) {
  to.order = Number(0, kAnyId);
  to.done = Bool();
  to.sent = Any32();
  const auto responders = List(4, [&] { return Address(); });
  to.answers = List(Count(), [&] {
    return ProbeAnswer{.source_port = Port(),
                       .ttl = Number<std::uint8_t>(1, 255),
                       .responder = responders[Number<std::size_t>(0, responders.size() - 1)],
                       .rtt_us = Any32()};
  });
  to.error = Name(0);
}

void Generator::Fill(PathHealth& to) {
  for (const LocalFlowId id : Ids(Count())) {
    to.flows.push_back({.flow = id,
                        .path_id = Any32(),
                        .source_port = Number<std::uint16_t>(0, 65'535),
                        .achieved_bps = Number(0, kAnyQuantity),
                        .planned_bps = Number(0, kAnyQuantity),
                        .retries = Any32(),
                        .out_of_sequence = Any32(),
                        .cnp = Any32(),
                        .rtt_us = Any32(),
                        .verdict = Number<PathVerdict>(0, 3),
                        .answered = Number(0, 1) == 1,
                        .left_port = Number<std::uint16_t>(0, 65'535),
                        .recovered_us = Number(0, 1'000'000'000),
                        .basis = Number<PathBasis>(0, 3)});
  }
}

void Generator::Fill(LinkEvent& to) {
  const bool by_name = Bool();
  to = {.link = by_name ? Name() : "",
        .address = by_name && Bool() ? IpAddress() : Address(),
        .up = Bool(),
        .source = Name(0)};
}

void Generator::Fill(RankPlan& to) {
  to.epoch = Number(0, kAnyId);
  to.generation = Number(0, kAnyId);
  to.job = Name();
  to.rank = Any32();
  to.program = List(Count(), [] { return '\xfe'; }).empty() ? "" : std::string("\x00\xfe", 2);
  to.program_version = Any32();
  to.peers = List(Count(), [&] {
    return PeerPorts{.rank = Any32(),
                     .address = Address(),
                     .source_ports = List(Number<std::size_t>(0, 4), [&] { return Port(); })};
  });
  for (PeerPorts& peer : to.peers) {
    peer.destination_port = Bool() ? Port() : std::uint16_t{0};
    peer.channels = List(peer.source_ports.size(), [&] { return Any32(); });
    peer.connections = List(Number<std::size_t>(0, 3), [&] {
      return ConnectionNics{.channel = Any32(), .source = Address(), .destination = Address()};
    });
  }
  to.ranks = Any32();
  to.version = Number(0, kAnyId);
  if (Bool()) {
    to.ranks = static_cast<std::uint32_t>(Count());
    to.rank_addresses = List(to.ranks, [&] { return Address(); });
  }
  to.listen_addresses = List(Number<std::size_t>(0, 3), [&] { return Address(); });
  if (Bool()) to.job_key = std::string(32, '\xee');
  if (Bool()) to.user = Bool() ? "alice" : std::to_string(Any32());
  if (Bool()) to.address = Address();
  to.listen_port = Bool() ? Port() : std::uint16_t{0};
  to.offload = Bool();
  to.urgent = Bool();
  to.verbs = Bool();
}

void Generator::Fill(CollectiveReport& to) {
  to = {.job = Name(),
        .rank = Any32(),
        .sequence = Number(0, kAnyId),
        .collective = Name(0),
        .bytes = Number(0, kAnyQuantity),
        .duration_us = Number(0, kYearUs),
        .error = Name(0)};
}

template <std::size_t... kKinds>
Body MakeDefaultBody(std::size_t kind, std::index_sequence<kKinds...>) {
  Body body;
  ((kind == kKinds ? void(body.emplace<kKinds>()) : void()), ...);
  return body;
}

}  // namespace

Message MakeRandomMessage(std::size_t kind, std::size_t max_entries, std::mt19937_64& random) {
  Generator generator(max_entries, random);
  Message message{
      .sender_instance = generator.Number(1, kAnyId),
      .body = MakeDefaultBody(kind, std::make_index_sequence<std::variant_size_v<Body>>())};
  std::visit([&](auto& body) { generator.Fill(body); }, message.body);
  return message;
}

Message MakeProgressReport(std::size_t flows) {
  FlowReport report{.sequence = 17};
  for (std::size_t i = 0; i < flows; ++i) {
    report.progress.push_back({.id = LocalFlowId(1000 + 3 * i),
                               .remaining_bytes = 100'000'000 + i,
                               .outstanding_bytes = 1'000'000,
                               .achieved_bps = 12'500'000'000});
  }
  return {.sender_instance = 1, .body = std::move(report)};
}

Message MakeOpenedReport(std::size_t flows) {
  FlowReport report{.sequence = 17, .jobs = {"job-1"}};
  report.addresses.push_back(IpAddress::FromV4(0x0a000001));
  for (std::uint32_t i = 0; i < flows; ++i) {
    report.addresses.push_back(IpAddress::FromV4(0x0a000100 + i));
    report.opened.push_back({.id = LocalFlowId(1000 + 3 * i),
                             .destination = i + 1,
                             .local_qpn = 0x1000 + i,
                             .remote_qpn = 0x2000 + i,
                             .source_port = static_cast<std::uint16_t>(49'152 + i)});
  }
  return {.sender_instance = 1, .body = std::move(report)};
}

}  // namespace espalier::wire
