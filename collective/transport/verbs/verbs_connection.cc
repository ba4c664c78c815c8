#include "collective/transport/verbs/verbs_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collective/transport/meeting/tcp_socket.h"
#include "common/base/check.h"
#include "common/verbs/path_control.h"
#include "common/verbs/source_port.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kSpareRequests = 8;  // for notices other than of released messages

// Whether its queue pair can receive.
bool IsOpen(const Lane& lane) {
  return lane.state == Lane::State::kReady || lane.state == Lane::State::kEmptying ||
         lane.state == Lane::State::kConnected;
}

std::size_t RoundUp(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

VerbsConnection::VerbsConnection(VerbsDevice& device, const VerbsOptions& options, int peer)
    : device_(device),
      options_(options),
      peer_(peer),
      slots_(static_cast<std::uint64_t>(options.slots)),
      stride_(sizeof(Header) + RoundUp(options.slot_bytes, kLine)),
      sent_(slots_, true) {}

Result<std::unique_ptr<VerbsConnection>> VerbsConnection::Make(
    VerbsDevice& device, const VerbsOptions& options, int peer,
    std::span<const std::uint16_t> ports) {
  auto connection = std::make_unique<VerbsConnection>(device, options, peer);
  auto made = connection->MakeAll(ports);
  if (!made) return Propagate(made);
  return connection;
}

Result<void> VerbsConnection::MakeAll(std::span<const std::uint16_t> ports) {
  // Each end has at most all its slots on their way, and tells of as many releases before the other
  // end looks, which it must before it sends more.
  const auto requests = static_cast<std::uint32_t>(2 * slots_) + kSpareRequests;
  auto queue = verbs::MakeCompletionQueue(*device_.context,
                                          static_cast<int>(2 * requests) * options_.queue_pairs,
                                          device_.channel.get());
  if (!queue) return Propagate(queue);
  queue_ = std::move(*queue);
  const std::size_t bytes = RoundUp(2 * slots_ * stride_, kPage);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (!memory_)
    return Fail(ErrorCode::kResourceExhausted, fmt::format("{} bytes of memory", bytes));
  auto region = verbs::RegisterMemory(*device_.domain, memory_.get(), bytes);
  if (!region) return Propagate(region);
  region_ = std::move(*region);
  const Lane::Surroundings around = {.domain = device_.domain.get(),
                                     .queue = queue_.get(),
                                     .local = &device_.address,
                                     .patience = options_.patience,
                                     .receives = requests,
                                     .sends = requests};
  for (std::size_t i = 0; i < static_cast<std::size_t>(options_.queue_pairs); ++i) {
    lanes_.push_back(std::make_unique<Lane>(around, static_cast<std::uint32_t>(i)));
    if (i < ports.size()) lanes_.back()->port = ports[i];
    lanes_.back()->is_spare = i >= std::max<std::size_t>(1, ports.size());
    auto made = lanes_.back()->Make();
    if (!made) return made;
  }
  return {};
}

std::byte* VerbsConnection::OutSlot(std::uint64_t message) const {
  return memory_.get() + SlotOf(message) * stride_;
}

std::byte* VerbsConnection::InSlot(std::uint64_t message) const {
  return memory_.get() + (slots_ + SlotOf(message)) * stride_;
}

ConnectionSetup VerbsConnection::Setup() const {
  ConnectionSetup setup = {
      .address = device_.address.address.bytes(),
      .memory = reinterpret_cast<std::uintptr_t>(InSlot(0)),
      .key = region_->rkey,
      .path_mtu_bytes = static_cast<std::uint32_t>(device_.address.path_mtu_bytes)};
  for (const auto& lane : lanes_) {
    setup.pairs[lane->index()] = {.number = lane->number(), .first_packet = lane->first_packet()};
  }
  return setup;
}

Result<void> VerbsConnection::Start(UniqueFd socket, const ConnectionSetup& remote) {
  socket_ = std::move(socket);
  remote_ = remote;
  path_mtu_bytes_ =
      std::min(device_.address.path_mtu_bytes, static_cast<int>(remote.path_mtu_bytes));
  for (const auto& lane : lanes_) {
    const auto& pair = remote.pairs[lane->index()];
    auto connected =
        lane->Connect(IpAddress(remote.address), pair.number, pair.first_packet, path_mtu_bytes_);
    if (!connected) return connected;
  }
  Arm();
  return {};
}

std::byte* VerbsConnection::TryAcquire() {
  const bool is_free = committed_ - freed_ < slots_ && sent_[SlotOf(committed_)];
  if (is_free && !has_ended_) return OutSlot(committed_) + sizeof(Header);
  needs_slot_ = true;
  return nullptr;
}

void VerbsConnection::Commit(std::size_t bytes, const MessageTag& tag) {
  ESPALIER_CHECK(bytes <= options_.slot_bytes);
  const Header header = {.bytes = bytes, .tag = tag};
  std::memcpy(OutSlot(committed_), &header, sizeof(header));
  sent_[SlotOf(committed_)] = false;
  to_send_.push_back(committed_++);
  Post();
}

const Message* VerbsConnection::TryPeek() {
  if ((arrived_ >> SlotOf(released_) & 1) == 0) {
    needs_message_ = true;
    return nullptr;
  }
  const std::byte* const slot = InSlot(released_);
  Header header;
  std::memcpy(&header, slot, sizeof(header));
  // A peer's slip must not lead outside the slot.
  const auto bytes = std::min<std::size_t>(header.bytes, options_.slot_bytes);
  message_ = {.bytes = {slot + sizeof(Header), bytes}, .tag = header.tag};
  return &message_;
}

void VerbsConnection::Release() {
  ESPALIER_CHECK((arrived_ >> SlotOf(released_) & 1) != 0);
  arrived_ &= ~(std::uint64_t{1} << SlotOf(released_));
  ++released_;
  Post();
}

bool VerbsConnection::IsFlushed() const {
  return std::all_of(sent_.begin(), sent_.end(), [](bool is_sent) { return is_sent; });
}

bool VerbsConnection::Move(bool looks_at_socket) {
  const bool received = looks_at_socket && ReceiveNotices();
  const bool polled = PollQueue();
  for (const auto& lane : lanes_) StepRenewal(*lane);
  Post();
  return received || polled;
}

void VerbsConnection::Arm() { ibv_req_notify_cq(queue_.get(), 0); }

bool VerbsConnection::PollQueue() {
  std::array<ibv_wc, 16> completions;
  bool any = false;
  while (true) {
    const int count =
        ibv_poll_cq(queue_.get(), static_cast<int>(completions.size()), completions.data());
    for (int i = 0; i < count; ++i) Handle(completions[static_cast<std::size_t>(i)]);
    if (count < 0) End("its device has failed");
    if (count <= 0) return any;
    any = true;
  }
}

void VerbsConnection::Handle(const ibv_wc& completion) {
  Lane& lane = *lanes_[Lane::IndexOf(completion.wr_id)];
  const std::uint32_t buffer = Lane::BufferOf(completion.wr_id);
  const bool succeeded = completion.status == IBV_WC_SUCCESS;
  if (buffer == Lane::kNoBuffer) {
    HandleSent(lane, succeeded);
  } else {
    lane.DropReceive();
    if (succeeded) {
      if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        HandleMessage(ntohl(completion.imm_data));
      } else {
        HandleNotice(lane.ReceivedIn(buffer));
      }
      const bool is_open = lane.state == Lane::State::kReady ||
                           lane.state == Lane::State::kEmptying ||
                           lane.state == Lane::State::kConnected;
      if (is_open) lane.PostReceive(buffer);
    }
  }
  if (!succeeded && IsOpen(lane)) {
    MarkFailed(lane);
    Close(lane);
  }
}

void VerbsConnection::HandleSent(Lane& lane, bool succeeded) {
  const Posted posted = lane.TakePosted();
  if (!posted.is_notice) {
    if (succeeded) {
      sent_[SlotOf(posted.message)] = true;
      needs_slot_ = false;
    } else {
      lane.uncertain.push_back(posted.message);
    }
    return;
  }
  const bool tells_releases = posted.notice.kind == NoticeKind::kReleased;
  if (tells_releases) is_telling_ = false;
  if (succeeded) return;
  if (tells_releases) {
    told_ = 0;  // to be told again
  } else {
    notices_.push_back(posted.notice);
  }
}

void VerbsConnection::HandleMessage(std::uint32_t low_bits) {
  const std::uint32_t ahead = low_bits - static_cast<std::uint32_t>(released_);
  const std::uint32_t behind = 0 - ahead;
  if (behind >= 1 && behind <= slots_ && behind <= released_) {
    // Soft RoCE delivers a message twice now and then, when acknowledgements are late. Nothing is
    // lost unless that was over the next message of the slot.
    if ((arrived_ >> SlotOf(released_ - behind) & 1) == 0) return;
    return End("its device has delivered a message twice, over another");
  }
  if (ahead >= slots_) return End("it sends messages that nobody has room for");
  arrived_ |= std::uint64_t{1} << SlotOf(released_ + ahead);
  needs_message_ = false;
}

void VerbsConnection::HandleNotice(const Notice& notice) {
  if (notice.kind == NoticeKind::kReleased) {
    if (notice.released > committed_) return End("it releases messages that it has not got");
    if (notice.released <= freed_) return;
    freed_ = notice.released;
    needs_slot_ = false;
    return;
  }
  if (notice.lane >= lanes_.size()) return End("it speaks of queue pairs that there are not");
  Lane& lane = *lanes_[notice.lane];
  if (notice.kind == NoticeKind::kRenew && notice.generation == lane.generation + 1) {
    // It has overtaken that of the present generation, over another lane.
    lane.next_renewal = notice;
  } else if (notice.kind == NoticeKind::kRenew && notice.generation == lane.generation) {
    lane.renewal = notice;
    lane.has_renewal = true;
    if (notice.has_failed != 0 && !lane.has_failed) MarkFailed(lane);
    if (IsOpen(lane)) Close(lane);
  } else if (notice.kind == NoticeKind::kConnected) {
    // May overtake the notice that makes it connect here as well, and may come twice.
    lane.connected_there = std::max(lane.connected_there, notice.generation);
  }
}

// Which of the two directions is dead nobody knows: both ends take another port.
void VerbsConnection::MarkFailed(Lane& lane) {
  lane.has_failed = true;
  ++lane.failures;
  lane.port = DrawPort(lane.port_in_use);
}

void VerbsConnection::Close(Lane& lane) {
  lane.state = Lane::State::kClosing;
  lane.Break();
}

// A lane's way from closed to ready again; each step waits for what the last has asked for.
void VerbsConnection::StepRenewal(Lane& lane) {
  if (has_ended_ || abort_) return;
  if (lane.state == Lane::State::kEmptying && lane.in_flight() == 0) Close(lane);
  if (lane.state == Lane::State::kClosing && lane.IsFlushed()) {
    if (auto made = lane.Make(); !made) return End(made.error().message);
    lane.state = Lane::State::kRenewed;
    notices_.push_back({.kind = NoticeKind::kRenew,
                        .lane = lane.index(),
                        .generation = lane.generation,
                        .number = lane.number(),
                        .first_packet = lane.first_packet(),
                        .has_failed = lane.has_failed ? 1U : 0U,
                        .released = released_,
                        .arrived = arrived_});
  }
  if (lane.state == Lane::State::kRenewed && lane.has_renewal) FinishRenewal(lane);
  if (lane.state == Lane::State::kConnected && lane.connected_there == lane.generation) {
    lane.state = Lane::State::kReady;
  }
  if (lane.state == Lane::State::kReady && lane.port != lane.port_in_use) {
    verbs::LivePortChange change(lane.pair(), verbs::LiveWay::kSetUdpPort, lane.port);
    if (change.Start()) {
      lane.port_in_use = lane.port;
    } else {
      lane.state = Lane::State::kEmptying;
    }
  }
}

void VerbsConnection::FinishRenewal(Lane& lane) {
  const Notice renewal = lane.renewal;
  auto connected = lane.Connect(IpAddress(remote_.address), renewal.number, renewal.first_packet,
                                path_mtu_bytes_);
  if (!connected) return End(connected.error().message);
  // The latest first, so that they end up before all others in the order of their numbers.
  std::sort(lane.uncertain.rbegin(), lane.uncertain.rend());
  for (const std::uint64_t message : lane.uncertain) {
    const bool has_arrived =
        message < renewal.released || (renewal.arrived >> SlotOf(message) & 1) != 0;
    if (has_arrived) {
      sent_[SlotOf(message)] = true;
      needs_slot_ = false;
    } else {
      to_send_.push_front(message);
    }
  }
  lane.uncertain.clear();
  lane.has_renewal = false;
  lane.has_failed = false;
  ++lane.generation;
  lane.state = Lane::State::kConnected;
  notices_.push_back(
      {.kind = NoticeKind::kConnected, .lane = lane.index(), .generation = lane.generation});
  if (const auto next = std::exchange(lane.next_renewal, std::nullopt)) HandleNotice(*next);
}

// Of the lanes that carry messages one in turn: those that were meant for it and have failed
// least. Null while none of them can take more.
Lane* VerbsConnection::ChooseLane() {
  const auto merit = [](const Lane& lane) { return std::pair(lane.failures, lane.is_spare); };
  const auto best =
      std::min_element(lanes_.begin(), lanes_.end(),
                       [&](const auto& a, const auto& b) { return merit(*a) < merit(*b); });
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[(next_lane_ + i) % lanes_.size()];
    const bool can_take = lane.state == Lane::State::kReady && lane.HasRoom();
    if (!can_take || merit(lane) != merit(**best)) continue;
    next_lane_ = (lane.index() + 1) % lanes_.size();
    return &lane;
  }
  return nullptr;
}

// Any that works: one that carries messages if there is.
Lane* VerbsConnection::ChooseLaneForNotice() {
  if (Lane* const lane = ChooseLane(); lane != nullptr) return lane;
  const auto ready = std::find_if(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return lane->state == Lane::State::kReady && lane->HasRoom();
  });
  return ready == lanes_.end() ? nullptr : ready->get();
}

void VerbsConnection::Post() {
  if (has_ended_) return;
  PostNotices();
  PostMessages();
}

void VerbsConnection::PostNotices() {
  while (!notices_.empty()) {
    Lane* const lane = ChooseLaneForNotice();
    const Notice notice = notices_.front();
    notices_.pop_front();
    if (lane == nullptr || !lane->PostNotice(notice)) SendOverSocket(notice, "");
  }
  if (told_ == released_ || is_telling_) return;
  Lane* const lane = ChooseLaneForNotice();
  if (lane == nullptr) return;
  if (lane->PostNotice({.kind = NoticeKind::kReleased, .released = released_})) {
    told_ = released_;
    is_telling_ = true;
  }
}

void VerbsConnection::PostMessages() {
  while (!to_send_.empty()) {
    Lane* const lane = ChooseLane();
    if (lane == nullptr) return;
    const std::uint64_t message = to_send_.front();
    const std::byte* const slot = OutSlot(message);
    Header header;
    std::memcpy(&header, slot, sizeof(header));
    const std::uint64_t place = remote_.memory + SlotOf(message) * stride_;
    if (!lane->PostMessage(message, {slot, sizeof(Header) + header.bytes}, region_->lkey, place,
                           remote_.key)) {
      return;
    }
    to_send_.pop_front();
  }
}

bool VerbsConnection::ReceiveNotices() {
  bool any = false;
  while (!has_ended_ && !abort_) {
    const NoticeReader::State state = reader_.Read(socket_.get());
    if (state == NoticeReader::State::kNothing) return any;
    any = true;
    if (state == NoticeReader::State::kEnded) {
      End(reader_.why_ended());
    } else if (reader_.notice().kind == NoticeKind::kAbort) {
      abort_.emplace(reader_.reason());
    } else {
      HandleNotice(reader_.notice());
    }
  }
  return any;
}

void VerbsConnection::SendOverSocket(const Notice& notice, const std::string& reason) {
  Notice sized = notice;
  sized.reason_bytes = static_cast<std::uint32_t>(std::min(reason.size(), kLongestReason));
  std::string frame(reinterpret_cast<const char*>(&sized), sizeof(sized));
  frame.append(reason, 0, sized.reason_bytes);
  const ssize_t sent =
      ::send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  // A few such frames at most are on their way at any time: they fit, or nobody reads them.
  if (sent != static_cast<ssize_t>(frame.size())) End("it cannot be told anything any more");
}

void VerbsConnection::SendAbort(const std::string& reason) {
  if (!has_ended_) SendOverSocket({.kind = NoticeKind::kAbort}, reason);
  ::shutdown(socket_.get(), SHUT_WR);
  End("this rank has given up");
}

void VerbsConnection::End(std::string why) {
  if (has_ended_) return;
  has_ended_ = true;
  why_ended_ = std::move(why);
}

std::optional<std::string> VerbsConnection::Failure() const {
  if (abort_) return abort_;
  if (has_ended_ && (needs_slot_ || needs_message_ || !IsFlushed())) {
    return fmt::format("rank {} is gone: {}", peer_, why_ended_);
  }
  return std::nullopt;
}

std::uint16_t VerbsConnection::DrawPort(std::uint16_t without) {
  std::uniform_int_distribution<int> ports(verbs::kFirstRocePort, UINT16_MAX);
  while (true) {
    const auto port = static_cast<std::uint16_t>(ports(random_));
    if (port != without) return port;
  }
}

Result<void> VerbsConnection::SetSourcePorts(std::span<const std::uint16_t> ports) {
  if (ports.empty() || ports.size() > lanes_.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} source ports for {} queue pairs", ports.size(), lanes_.size()));
  }
  for (const std::uint16_t port : ports) {
    if (const auto label = verbs::FlowLabelFor(port); !label) return tl::unexpected(label.error());
  }
  for (const auto& lane : lanes_) {
    const std::size_t index = lane->index();
    lane->is_spare = index >= ports.size();
    if (lane->is_spare) continue;
    lane->port = ports[index];
    lane->failures = 0;
  }
  Move(false);
  return {};
}

}  // namespace espalier::transport
