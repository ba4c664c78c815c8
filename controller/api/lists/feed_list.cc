#include "controller/api/lists/feed_list.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "common/files/json_writer.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using io::JsonWriter;

constexpr std::size_t kMostLoads = 200;

struct Load {
  DirectedLink link;
  BackgroundLoads::Background background;
};

// What is known of a feed of loads.
struct LoadFeed {
  std::int64_t links = 0;
  TimePoint last{};  // report
};

struct Loads {
  std::map<std::string, LoadFeed> feeds;
  std::vector<Load> in_force;  // the largest first
};

Loads CollectLoads(const Controller& controller) {
  Loads loads;
  const std::size_t directions = 2 * controller.state().topology.links().size();
  for (std::size_t i = 0; i < directions; ++i) {
    const DirectedLink link = DirectedLink::FromIndex(i);
    const auto background = controller.links().background.Find(link);
    if (!background) continue;
    LoadFeed& feed = loads.feeds[background->source];
    ++feed.links;
    feed.last = std::max(feed.last, background->measured);
    if (background->bps > 0) loads.in_force.push_back({link, *background});
  }
  std::ranges::stable_sort(loads.in_force, std::ranges::greater{},
                           [](const Load& load) { return load.background.bps; });
  return loads;
}

void WriteFeed(JsonWriter& json, std::string_view source, std::string_view kind, bool is_silent,
               std::int64_t links, Duration age) {
  json.BeginObject();
  json.Key("source").String(source);
  json.Key("kind").String(kind);
  json.Key("state").String(is_silent ? "SILENT" : "REPORTING");
  json.Key("links").Integer(links);
  json.Key("age_seconds").Double(std::max(0.0, SecondsOf(age)));
  json.EndObject();
}

void WriteFeeds(JsonWriter& json, const Controller& controller, const Loads& loads) {
  const TimePoint now = controller.Now();
  json.Key("feeds").BeginArray();
  for (const auto& [source, since] : controller.state().silent_feeds) {
    WriteFeed(json, source, "LOADS", true, 0, now - since);
  }
  for (const auto& [source, feed] : loads.feeds) {
    // Of some of its links it may be silent, while it reports others.
    if (controller.state().silent_feeds.contains(source)) continue;
    WriteFeed(json, source, "LOADS", false, feed.links, now - feed.last);
  }
  for (const auto& [source, last] : controller.links().sightings.feeds()) {
    WriteFeed(json, source, "FLOWS", now - last >= Sightings::kMemory, 0, now - last);
  }
  json.EndArray();
}

}  // namespace

std::string FeedList(const Controller& controller) {
  const State& state = controller.state();
  const Loads loads = CollectLoads(controller);
  JsonWriter json;
  json.BeginObject();
  WriteFeeds(json, controller, loads);
  json.Key("links_down").BeginArray();
  for (const auto& [link, reported] : controller.links().health.reported_down()) {
    json.BeginObject();
    json.Key("link").String(link);
    json.Key("source").String(reported.source);
    json.Key("since").String(FormatWallTime(reported.since));
    json.EndObject();
  }
  json.EndArray();
  const std::size_t shown = std::min(loads.in_force.size(), kMostLoads);
  json.Key("loads").BeginArray();
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [link, background] = loads.in_force[i];
    json.BeginObject();
    json.Key("link").String(state.topology.DirectionName(link));
    json.Key("bps").Integer(background.bps);
    json.Key("reported_bps").Integer(background.reported_bps);
    json.Key("source").String(background.source);
    json.Key("age_seconds").Double(SecondsOf(controller.Now() - background.measured));
    json.EndObject();
  }
  json.EndArray();
  json.Key("loads_left_out").Integer(static_cast<std::int64_t>(loads.in_force.size() - shown));
  json.EndObject();
  return json.Text();
}

}  // namespace espalier::controller
