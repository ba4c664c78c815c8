#include "collective/transport/verbs/verbs_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collective/transport/rendezvous/tcp_socket.h"
#include "common/base/check.h"
#include "common/verbs/path_control.h"
#include "common/verbs/source_port.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kSpareRequests = 8;  // for notices other than kReleased

std::size_t RoundUp(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

VerbsConnection::VerbsConnection(VerbsDevice& device, const VerbsOptions& options, int peer)
    : device_(device),
      options_(options),
      peer_(peer),
      stride_(sizeof(Header) + RoundUp(options.slot_bytes, kLine)),
      out_(static_cast<std::uint64_t>(options.slots)),
      in_(static_cast<std::uint64_t>(options.slots)) {}

Result<std::unique_ptr<VerbsConnection>> VerbsConnection::Make(
    VerbsDevice& device, const VerbsOptions& options, int peer,
    std::span<const std::uint16_t> ports) {
  auto connection = std::make_unique<VerbsConnection>(device, options, peer);
  auto made = connection->MakeAll(ports);
  if (!made) return Propagate(made);
  return connection;
}

Result<void> VerbsConnection::MakeAll(std::span<const std::uint16_t> ports) {
  // Each end has at most `slots` messages in flight, and at most as many kReleased notices, which
  // the other end must read before it can send more.
  const auto slots = static_cast<std::size_t>(options_.slots);
  const auto requests = static_cast<std::uint32_t>(2 * slots) + kSpareRequests;
  auto queue = verbs::MakeCompletionQueue(*device_.context,
                                          static_cast<int>(2 * requests) * options_.queue_pairs,
                                          device_.channel.get());
  if (!queue) return Propagate(queue);
  queue_ = std::move(*queue);
  const std::size_t bytes = RoundUp(2 * slots * stride_, kPage);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (!memory_)
    return Fail(ErrorCode::kResourceExhausted, fmt::format("cannot allocate {} bytes", bytes));
  auto region = verbs::RegisterMemory(*device_.domain, memory_.get(), bytes);
  if (!region) return Propagate(region);
  region_ = std::move(*region);
  const Lane::LaneResources resources = {.domain = device_.domain.get(),
                                         .queue = queue_.get(),
                                         .local = &device_.address,
                                         .patience = options_.patience,
                                         .receives = requests,
                                         .sends = requests};
  lanes_.emplace(resources, options_.queue_pairs, ports);
  return lanes_->Make();
}

std::byte* VerbsConnection::OutSlot(std::uint64_t message) const {
  return memory_.get() + out_.SlotOf(message) * stride_;
}

std::byte* VerbsConnection::InSlot(std::uint64_t message) const {
  return memory_.get() + (static_cast<std::size_t>(options_.slots) + in_.SlotOf(message)) * stride_;
}

ConnectionSetup VerbsConnection::Setup() const {
  ConnectionSetup setup = {
      .address = device_.address.address.bytes(),
      .memory = reinterpret_cast<std::uintptr_t>(InSlot(0)),
      .key = region_->rkey,
      .path_mtu_bytes = static_cast<std::uint32_t>(device_.address.path_mtu_bytes)};
  for (const auto& lane : lanes_->all()) {
    setup.pairs[lane->index()] = {.number = lane->number(), .first_packet = lane->first_packet()};
  }
  return setup;
}

Result<void> VerbsConnection::Start(UniqueFd socket, const ConnectionSetup& remote) {
  socket_ = std::move(socket);
  remote_ = remote;
  path_mtu_bytes_ =
      std::min(device_.address.path_mtu_bytes, static_cast<int>(remote.path_mtu_bytes));
  for (const auto& lane : lanes_->all()) {
    const auto& pair = remote.pairs[lane->index()];
    auto connected =
        lane->Connect(IpAddress(remote.address), pair.number, pair.first_packet, path_mtu_bytes_);
    if (!connected) return connected;
  }
  Arm();
  return {};
}

std::byte* VerbsConnection::TryAcquire() {
  if (out_.HasRoom() && !has_ended_) return OutSlot(out_.next()) + sizeof(Header);
  out_.MarkNeeded();
  return nullptr;
}

void VerbsConnection::Commit(std::size_t bytes, const MessageTag& tag) {
  ESPALIER_CHECK(bytes <= options_.slot_bytes);
  const Header header = {.bytes = bytes, .tag = tag};
  std::memcpy(OutSlot(out_.next()), &header, sizeof(header));
  out_.Commit();
  Post();
}

const Message* VerbsConnection::TryPeek() {
  if (!in_.HasNext()) {
    in_.MarkNeeded();
    return nullptr;
  }
  const std::byte* const slot = InSlot(in_.next());
  Header header;
  std::memcpy(&header, slot, sizeof(header));
  // A faulty peer must not make this rank read beyond the slot.
  const auto bytes = std::min<std::size_t>(header.bytes, options_.slot_bytes);
  message_ = {.bytes = {slot + sizeof(Header), bytes}, .tag = header.tag};
  return &message_;
}

void VerbsConnection::Release() {
  in_.Release();
  Post();
}

bool VerbsConnection::Move(bool checks_socket) {
  const bool received = checks_socket && ReceiveNotices();
  const bool polled = PollQueue();
  for (const auto& lane : lanes_->all()) StepRenewal(*lane);
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
  Lane& lane = (*lanes_)[Lane::IndexOf(completion.wr_id)];
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
      if (lane.IsOpen()) lane.PostReceive(buffer);
    }
  }
  if (!succeeded && lane.IsOpen()) {
    lanes_->MarkFailed(lane);
    Close(lane);
  }
}

void VerbsConnection::HandleSent(Lane& lane, bool succeeded) {
  const Posted posted = lane.TakePosted();
  if (!posted.is_notice) {
    if (succeeded) {
      out_.MarkArrived(posted.message);
    } else {
      lane.uncertain.push_back(posted.message);
    }
    return;
  }
  const bool tells_releases = posted.notice.kind == NoticeKind::kReleased;
  if (tells_releases) {
    in_.EndTelling(succeeded);
  } else if (!succeeded) {
    notices_.push_back(posted.notice);
  }
}

void VerbsConnection::HandleMessage(std::uint32_t low_bits) {
  switch (in_.Accept(low_bits)) {
    case ReceiveWindow::Arrival::kOverAnother:
      return End("its device has delivered a message twice and overwritten a later one");
    case ReceiveWindow::Arrival::kTooEarly:
      return End("it sends more messages than there are free slots");
    default:
      return;
  }
}

void VerbsConnection::HandleNotice(const Notice& notice) {
  if (notice.kind == NoticeKind::kReleased) {
    if (!out_.MarkReleased(notice.released)) End("it releases messages that were not sent");
    return;
  }
  if (notice.lane >= lanes_->size()) return End("it names a queue pair that does not exist");
  Lane& lane = (*lanes_)[notice.lane];
  if (notice.kind == NoticeKind::kRenew && notice.generation == lane.generation + 1) {
    // This notice has overtaken the one of the present generation over another lane.
    lane.next_renewal = notice;
  } else if (notice.kind == NoticeKind::kRenew && notice.generation == lane.generation) {
    lane.renewal = notice;
    lane.has_renewal = true;
    if (notice.has_failed != 0 && !lane.has_failed) lanes_->MarkFailed(lane);
    if (lane.IsOpen()) Close(lane);
  } else if (notice.kind == NoticeKind::kConnected) {
    // This notice may overtake the kRenew that connects the lane here, and may come twice.
    lane.connected_there = std::max(lane.connected_there, notice.generation);
  }
}

void VerbsConnection::Close(Lane& lane) {
  lane.state = Lane::State::kClosing;
  lane.Break();
}

// Brings a lane from closed back to ready, one step at a time: flush the closed queue pair, create
// a new one and tell its number (kRenew), connect it when the other end's kRenew has come, and use
// it when the other end is connected, too (kConnected). Also starts a change of the source port: in
// place if the device can, else by emptying and renewing the lane.
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
                        .released = in_.released(),
                        .arrived = in_.arrived()});
  }
  if (lane.state == Lane::State::kRenewed && lane.has_renewal) FinishRenewal(lane);
  if (lane.state == Lane::State::kConnected && lane.connected_there == lane.generation) {
    lane.state = Lane::State::kReady;
  }
  if (lane.state == Lane::State::kReady && lane.port != lane.port_in_use) {
    verbs::LivePortChange change(lane.pair(), verbs::PortChangeMethod::kSetUdpPort, lane.port);
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
  out_.Settle(std::exchange(lane.uncertain, {}), renewal.released, renewal.arrived);
  lane.has_renewal = false;
  lane.has_failed = false;
  ++lane.generation;
  lane.state = Lane::State::kConnected;
  notices_.push_back(
      {.kind = NoticeKind::kConnected, .lane = lane.index(), .generation = lane.generation});
  if (const auto next = std::exchange(lane.next_renewal, std::nullopt)) HandleNotice(*next);
}

void VerbsConnection::Post() {
  if (has_ended_) return;
  PostNotices();
  PostMessages();
}

void VerbsConnection::PostNotices() {
  while (!notices_.empty()) {
    Lane* const lane = lanes_->ChooseForNotice();
    const Notice notice = notices_.front();
    notices_.pop_front();
    if (lane == nullptr || !lane->PostNotice(notice)) SendOverSocket(notice, "");
  }
  if (!in_.HasToTell()) return;
  Lane* const lane = lanes_->ChooseForNotice();
  if (lane == nullptr) return;
  if (lane->PostNotice({.kind = NoticeKind::kReleased, .released = in_.released()})) {
    in_.BeginTelling();
  }
}

void VerbsConnection::PostMessages() {
  while (!out_.waiting().empty()) {
    Lane* const lane = lanes_->ChooseForMessage();
    if (lane == nullptr) return;
    const std::uint64_t message = out_.waiting().front();
    const std::byte* const slot = OutSlot(message);
    Header header;
    std::memcpy(&header, slot, sizeof(header));
    const std::uint64_t place = remote_.memory + out_.SlotOf(message) * stride_;
    if (!lane->PostMessage(message, {slot, sizeof(Header) + header.bytes}, region_->lkey, place,
                           remote_.key)) {
      return;
    }
    out_.waiting().pop_front();
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
  // Few such frames are in flight at any time, so they fit unless the peer does not read.
  if (sent != static_cast<ssize_t>(frame.size())) End("it does not read its control connection");
}

void VerbsConnection::SendAbort(const std::string& reason) {
  if (!has_ended_) SendOverSocket({.kind = NoticeKind::kAbort}, reason);
  ::shutdown(socket_.get(), SHUT_WR);
  End("this rank has aborted");
}

void VerbsConnection::End(std::string why) {
  if (has_ended_) return;
  has_ended_ = true;
  why_ended_ = std::move(why);
}

std::optional<std::string> VerbsConnection::Failure() const {
  if (abort_) return abort_;
  if (has_ended_ && (out_.is_needed() || in_.is_needed() || !IsFlushed())) {
    return fmt::format("rank {} is gone: {}", peer_, why_ended_);
  }
  return std::nullopt;
}

Result<void> VerbsConnection::SetSourcePorts(std::span<const std::uint16_t> ports) {
  if (ports.empty() || ports.size() > lanes_->size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} source ports for {} queue pairs (at most one for each)",
                            ports.size(), lanes_->size()));
  }
  for (const std::uint16_t port : ports) {
    if (const auto label = verbs::FlowLabelFor(port); !label) return tl::unexpected(label.error());
  }
  lanes_->SetPorts(ports);
  Move(false);
  return {};
}

}  // namespace espalier::transport
