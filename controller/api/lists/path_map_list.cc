#include "controller/api/lists/path_map_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "common/files/json_writer.h"

namespace espalier::controller {
namespace {

using fabric::NodeId;
using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortTrust;
using io::JsonWriter;

constexpr std::size_t kMaxPairs = 1'000;  // without a limit in the request
// Counting this many ports, or passing this many places, costs as much as one item.
constexpr std::size_t kPortsPerItem = 64;

struct Trusts {
  std::array<std::int64_t, 3> ports{};  // by PortTrust

  void Add(const PortEntry& entry) { ++ports[static_cast<std::size_t>(entry.trust)]; }
  std::int64_t Of(PortTrust trust) const { return ports[static_cast<std::size_t>(trust)]; }
};

std::string NameOf(const PortKey& key) {
  return fmt::format("{}-{}-{}-{}-{}", key.source.value(), key.destination.value(), key.protocol,
                     key.destination_port, key.destination_qpn);
}

std::optional<PortKey> KeyOf(const std::string& name) {
  constexpr std::array<std::uint32_t, 5> kMost = {INT32_MAX, INT32_MAX, UINT8_MAX, UINT16_MAX,
                                                  UINT32_MAX};
  std::array<std::uint32_t, 5> numbers{};
  const char* at = name.data();
  const char* const end = name.data() + name.size();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '-')) return std::nullopt;
    const auto parsed = std::from_chars(at, end, numbers[i]);
    if (parsed.ec != std::errc() || numbers[i] > kMost[i]) return std::nullopt;
    at = parsed.ptr;
  }
  if (at != end) return std::nullopt;
  return PortKey{.source = NodeId(static_cast<std::int32_t>(numbers[0])),
                 .destination = NodeId(static_cast<std::int32_t>(numbers[1])),
                 .protocol = static_cast<std::uint8_t>(numbers[2]),
                 .destination_port = static_cast<std::uint16_t>(numbers[3]),
                 .destination_qpn = numbers[4]};
}

std::string WritePair(const State& state, const PortKey& key,
                      const std::vector<PortEntry>& entries) {
  Trusts trusts;
  std::set<fabric::PathIndex> known;
  for (const PortEntry& entry : entries) {
    trusts.Add(entry);
    known.insert(entry.path);
  }
  const auto from = state.paths.FindAttachment(key.source);
  const auto to = state.paths.FindAttachment(key.destination);
  const std::size_t paths = from && to ? state.paths.Between(from->leaf, to->leaf).size() : 0;
  JsonWriter json;
  json.BeginObject();
  json.Key("source").String(state.topology.node(key.source).id);
  json.Key("destination").String(state.topology.node(key.destination).id);
  json.Key("protocol").Integer(key.protocol);
  json.Key("destination_port").Integer(key.destination_port);
  json.Key("verified").Integer(trusts.Of(PortTrust::kVerified));
  json.Key("predicted").Integer(trusts.Of(PortTrust::kPredicted));
  json.Key("reverify").Integer(trusts.Of(PortTrust::kReverify));
  json.Key("paths_known").Integer(static_cast<std::int64_t>(known.size()));
  json.Key("paths").Integer(static_cast<std::int64_t>(paths));
  json.EndObject();
  return json.Text();
}

// The map has no order that outlives a turn. All of it is therefore counted first, and the first
// keys behind `after` are kept, one more than fit the page, which tells whether another page
// follows. Memory: O(page). If the map grows so much meanwhile that its keys change places, the
// count starts again; growth doubles the map each time, so this ends.
class PairItems : public Items {
 public:
  PairItems(const State& state, std::optional<NodeId> source, std::optional<PortKey> after,
            std::size_t limit)
      : state_(state), source_(source), after_(after), limit_(limit) {}

  std::vector<std::string_view> Arrays() const override { return {"pairs"}; }

  bool Prepare() override {
    if (places_ != state_.path_map.PlaceCount()) StartCount();
    for (std::size_t work = 0; work < kListItemsPerTurn * kPortsPerItem; ++work, ++place_) {
      if (place_ == places_) {
        next_ = keys_.begin();
        return true;
      }
      state_.path_map.ForEachKeyAt(place_, [&](const PortKey& key, const auto& entries) {
        work += entries.size();
        Count(key, entries);
      });
    }
    return false;
  }

  std::optional<Item> Next() override {
    for (; next_ != keys_.end(); ++gone_) {
      const PortKey key = *next_++;
      const std::vector<PortEntry>& entries = state_.path_map.Ports(key);
      if (entries.empty()) continue;  // forgotten since the count
      return Item{.name = NameOf(key),
                  .json = WritePair(state_, key, entries),
                  .work = 1 + entries.size() / kPortsPerItem};
    }
    return std::nullopt;
  }

  std::string Tail(std::size_t written) override {
    return fmt::format(
        ",\"pairs_known\":{},\"pairs_left_off\":{},\"verified\":{},\"predicted\":{},"
        "\"reverify\":{}",
        state_.path_map.KeyCount(), wanted_ - std::min(wanted_, written + gone_),
        total_.Of(PortTrust::kVerified), total_.Of(PortTrust::kPredicted),
        total_.Of(PortTrust::kReverify));
  }

 private:
  void StartCount() {
    places_ = state_.path_map.PlaceCount();
    place_ = 0;
    wanted_ = 0;
    total_ = {};
    keys_.clear();
  }
  void Count(const PortKey& key, const std::vector<PortEntry>& entries) {
    for (const PortEntry& entry : entries) total_.Add(entry);
    if ((source_ && key.source != *source_) || (after_ && key <= *after_)) return;
    ++wanted_;
    keys_.insert(key);
    if (keys_.size() - 1 > limit_) keys_.erase(std::prev(keys_.end()));
  }

  const State& state_;
  const std::optional<NodeId> source_;
  const std::optional<PortKey> after_;
  const std::size_t limit_;
  std::size_t places_ = 0;  // of the map when the count began
  std::size_t place_ = 0;   // the places before it are counted
  std::size_t wanted_ = 0;  // keys behind `after`
  Trusts total_;
  std::set<PortKey> keys_;
  std::set<PortKey>::const_iterator next_;
  std::size_t gone_ = 0;  // of keys_
};

}  // namespace

void ListPathMap(Controller& controller, const Page& page, ListDone done) {
  std::optional<PortKey> after;
  if (!page.after.empty()) {
    after = KeyOf(page.after);
    if (!after) {
      return done(
          Fail(ErrorCode::kInvalidArgument,
               fmt::format("after: invalid value \"{}\" (give \"next\" of the previous page)",
                           page.after)));
    }
  }
  const State& state = controller.state();
  std::optional<NodeId> source;
  if (!page.source.empty()) {
    // An unknown source has no pairs.
    source = state.topology.FindNode(page.source).value_or(NodeId(-1));
  }
  const std::size_t limit = page.limit.value_or(kMaxPairs);
  WriteList(controller.loop(), std::make_unique<PairItems>(state, source, after, limit), limit,
            std::move(done));
}

}  // namespace espalier::controller
