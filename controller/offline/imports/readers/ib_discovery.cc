#include "controller/offline/imports/readers/ib_discovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

constexpr std::array<std::pair<std::string_view, std::int64_t>, 9> kLaneMbps = {{{"SDR", 2'500},
                                                                                 {"DDR", 5'000},
                                                                                 {"QDR", 10'000},
                                                                                 {"FDR10", 10'000},
                                                                                 {"FDR", 14'000},
                                                                                 {"EDR", 25'000},
                                                                                 {"HDR", 50'000},
                                                                                 {"NDR", 100'000},
                                                                                 {"XDR", 200'000}}};

// A node of the fabric, by its key: "S-..." or "H-..." in the full form, kind and GUID of the port
// in the report.
struct IbNode {
  std::string key;
  // In the report of ports an adapter has a GUID for each port, and so a node each; 0 otherwise.
  int port = 0;
  bool is_switch = false;
  std::string description;
  Place at;
};
struct IbEnd {
  std::string key;
  int port = 0;
};
struct IbLink {
  IbEnd a;
  IbEnd b;
  std::optional<BitsPerSecond> rate;
  Place at;
};

// Reads the parts of one line from left to right.
class Cursor {
 public:
  explicit Cursor(const Line& line) : line_(line) {}

  Place Here() const { return {line_.number, static_cast<int>(at_) + 1}; }
  std::string_view Rest() const { return line_.text.substr(at_); }
  bool Skip(std::string_view text) {
    SkipBlanks();
    if (!Rest().starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  void SkipBlanks() { at_ = std::min(line_.text.find_first_not_of(" \t", at_), line_.text.size()); }
  // What is before the next `end`, and moves past that.
  std::optional<std::string_view> Until(std::string_view end) {
    const std::size_t found = line_.text.find(end, at_);
    if (found == std::string_view::npos) return std::nullopt;
    const std::string_view text = line_.text.substr(at_, found - at_);
    at_ = found + end.size();
    return text;
  }
  std::string_view Word() {
    SkipBlanks();
    const std::size_t end = std::min(line_.text.find_first_of(" \t", at_), line_.text.size());
    const std::string_view word = line_.text.substr(at_, end - at_);
    at_ = end;
    return word;
  }

 private:
  Line line_;
  std::size_t at_ = 0;
};

std::string Trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(' ') + 1 - begin));
}

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), port);
  const bool is_whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return is_whole && port >= 0 && port <= 65'535 ? std::optional(port) : std::nullopt;
}

// "4xEDR", or "4x" and "EDR".
std::optional<BitsPerSecond> RateOf(std::string_view width, std::string_view speed) {
  const auto lanes = ParsePort(width);
  const auto* lane =
      std::ranges::find(kLaneMbps, speed, &std::pair<std::string_view, std::int64_t>::first);
  if (!lanes || *lanes < 1 || *lanes > 12 || lane == kLaneMbps.end()) return std::nullopt;
  return BitsPerSecond{*lanes * lane->second * 1'000'000};
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : text_(text), file_(file) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    for (const Line& line : SplitLines(text_)) {
      if (auto done = ReadLine(line); !done) return Propagate(done);
      if (links_.size() > 2 * kMaxCables) {
        return FailAt(file_, {line.number, 1}, "more than 1000000 cables (split the fabric)");
      }
    }
    if (nodes_.empty()) {
      return FailAt(file_, {}, "no switch and no channel adapter (give what ibnetdiscover prints)");
    }
    if (auto done = NameNodes(); !done) return Propagate(done);
    return std::move(cabling_);
  }

 private:
  tl::unexpected<Error> Fail(const Cursor& cursor, std::string_view what) const {
    return FailAt(file_, cursor.Here(), what);
  }

  Result<void> ReadLine(const Line& line) {
    Cursor cursor(line);
    cursor.SkipBlanks();
    const std::string_view rest = cursor.Rest();
    if (rest.empty() || rest.starts_with('#')) return {};
    if (rest.starts_with('[')) return ReadPort(cursor);
    for (const std::string_view kind : {"Switch\t", "Switch ", "Ca\t", "Ca ", "Rt\t", "Rt "}) {
      if (rest.starts_with(kind)) return ReadNode(cursor);
    }
    for (const std::string_view kind : {"SW ", "CA ", "RT "}) {
      if (rest.starts_with(kind)) return ReadPortReport(cursor);
    }
    // "vendid=0x2c9", "switchguid=0x2c9(2c9)", "Chassis 1 (guid 0x...)", "Non-Chassis Nodes"
    const std::size_t equals = rest.find('=');
    const bool is_fact = equals != std::string_view::npos && rest.find(' ') > equals;
    if (is_fact || rest.starts_with("Chassis") || rest.starts_with("Non-Chassis")) return {};
    return Fail(cursor, fmt::format("{} is no line of ibnetdiscover (remove it)", Quote(rest)));
  }

  // Switch  36 "S-0002..."   # "leaf0" enhanced port 0 lid 1 lmc 0
  Result<void> ReadNode(Cursor& cursor) {
    IbNode node;
    node.at = cursor.Here();
    node.is_switch = cursor.Word() == "Switch";
    cursor.Word();
    const auto key = cursor.Skip("\"") ? cursor.Until("\"") : std::nullopt;
    if (!key || key->empty()) return Fail(cursor, "the node has no GUID in quotes");
    node.key = *key;
    const auto description =
        cursor.Skip("#") && cursor.Skip("\"") ? cursor.Until("\"") : std::nullopt;
    node.description = Trimmed(description.value_or(""));
    if (!nodes_.try_emplace(node.key, node).second) {
      return FailAt(file_, node.at,
                    fmt::format("node {} is listed twice (remove one)", Quote(*key)));
    }
    order_.push_back(node.key);
    present_ = node.key;
    return {};
  }

  // [1](100001)   "S-0002..."[5](200001)   # lid 1 lmc 0 "leaf0" lid 5 4xEDR
  Result<void> ReadPort(Cursor& cursor) {
    IbLink link;
    link.at = cursor.Here();
    if (present_.empty()) return Fail(cursor, "a port before the first node");
    link.a.key = present_;
    const auto own = ReadBracket(cursor);
    if (!own) return Fail(cursor, "expected the number of a port in brackets");
    link.a.port = *own;
    if (cursor.Skip("(")) cursor.Until(")");
    const auto key = cursor.Skip("\"") ? cursor.Until("\"") : std::nullopt;
    if (!key) return Fail(cursor, "expected the far node in quotes");
    link.b.key = *key;
    const auto far = ReadBracket(cursor);
    if (!far) return Fail(cursor, "expected the number of the far port in brackets");
    link.b.port = *far;
    // Behind the last description; `-f` adds "s=1 w=2 v=4".
    const std::string_view rest = cursor.Rest();
    const std::size_t quote = rest.find_last_of('"');
    if (quote != std::string_view::npos) {
      for (const Word& word : SplitWords({rest.substr(quote + 1), 1})) {
        const std::size_t times = word.text.find('x');
        if (times == std::string_view::npos) continue;
        link.rate = RateOf(word.text.substr(0, times), word.text.substr(times + 1));
      }
    }
    links_.push_back(std::move(link));
    return {};
  }

  static std::optional<int> ReadBracket(Cursor& cursor) {
    if (!cursor.Skip("[")) return std::nullopt;
    const auto text = cursor.Until("]");
    return text ? ParsePort(*text) : std::nullopt;
  }

  // SW 1 5 0x0002 4x EDR - CA 7 1 0x0001 ( 'leaf0' - 'host0 mlx5_0' ). The GUIDs are of ports: a
  // switch has one for all of them, an adapter one for each.
  Result<void> ReadPortReport(Cursor& cursor) {
    IbLink link;
    link.at = cursor.Here();
    IbNode a;
    IbNode b;
    if (!ReadReportEnd(cursor, a, link.a)) return Fail(cursor, "expected LID, port and GUID");
    const std::string_view width = cursor.Word();
    const std::string_view speed = cursor.Word();
    if (width.ends_with('x')) link.rate = RateOf(width.substr(0, width.size() - 1), speed);
    if (!cursor.Skip("-")) return {};  // a free port
    if (!ReadReportEnd(cursor, b, link.b)) return Fail(cursor, "expected LID, port and GUID");
    const auto first = cursor.Skip("(") && cursor.Skip("'") ? cursor.Until("' - '") : std::nullopt;
    const auto second = first ? cursor.Until("' )") : std::nullopt;
    if (!second) return Fail(cursor, "expected ( 'NODE' - 'NODE' )");
    a.description = Trimmed(*first);
    b.description = Trimmed(*second);
    for (IbNode* node : {&a, &b}) {
      node->at = link.at;
      const auto [known, is_new] = nodes_.try_emplace(node->key, *node);
      if (is_new) order_.push_back(node->key);
      if (known->second.description == node->description) continue;
      return FailAt(file_, link.at,
                    fmt::format("{} is {} here and {} in line {} (write the file again)", node->key,
                                Quote(node->description), Quote(known->second.description),
                                known->second.at.line));
    }
    links_.push_back(std::move(link));
    return {};
  }

  static bool ReadReportEnd(Cursor& cursor, IbNode& node, IbEnd& end) {
    const std::string_view kind = cursor.Word();
    const std::string_view lid = cursor.Word();
    const auto port = ParsePort(cursor.Word());
    const std::string_view guid = cursor.Word();
    if (!port || !ParsePort(lid) || !guid.starts_with("0x")) return false;
    node.is_switch = kind == "SW";
    node.port = node.is_switch ? 0 : *port;
    node.key = fmt::format("{} {}", kind, guid);
    end.key = node.key;
    end.port = *port;
    return true;
  }

  // Gives devices and ports their names and reports the cables.
  Result<void> NameNodes() {
    std::map<std::pair<std::string, int>, int> uses;
    for (const auto& [key, node] : nodes_) ++uses[{node.description, node.port}];
    std::vector<std::string> unnamed;
    std::set<std::string> left_out;
    for (const std::string& key : order_) {
      const IbNode& node = nodes_.at(key);
      if (node.description.find("Aggregation Node") != std::string::npos) {
        left_out.insert(key);
        continue;
      }
      const bool is_named = !node.description.empty() && uses[{node.description, node.port}] == 1;
      CableEnd& name = names_[key];
      name.device = is_named ? node.description : key;
      if (!is_named) unnamed.push_back(key);
      const std::size_t blank = name.device.find(' ');
      if (is_named && !node.is_switch && blank != std::string::npos) {
        name.port = name.device.substr(name.device.find_first_not_of(' ', blank));
        name.device.resize(blank);
      }
      DeviceFact& fact = cabling_.devices.emplace_back();
      fact.name = name.device;
      fact.kind = node.is_switch ? DeviceKind::kSwitch : DeviceKind::kHost;
      fact.at = node.at;
    }
    if (!unnamed.empty()) {
      cabling_.remarks.push_back(fmt::format(
          "{}: {} ha{} no description of {} own: named by GUID", file_, NameSome(unnamed),
          unnamed.size() == 1 ? "s" : "ve", unnamed.size() == 1 ? "its" : "their"));
    }
    if (!left_out.empty()) {
      cabling_.remarks.push_back(fmt::format("{}: {} aggregation node{} of switches left out",
                                             file_, left_out.size(),
                                             left_out.size() == 1 ? "" : "s"));
    }
    for (IbLink& link : links_) {
      if (left_out.contains(link.a.key) || left_out.contains(link.b.key)) continue;
      for (const IbEnd* end : {&link.a, &link.b}) {
        if (names_.contains(end->key)) continue;
        return FailAt(file_, link.at,
                      fmt::format("node {} is not in the file (write the file again: the fabric "
                                  "changed meanwhile)",
                                  Quote(end->key)));
      }
      cabling_.cables.push_back({EndOf(link.a), EndOf(link.b), link.rate, false, link.at});
    }
    return {};
  }

  CableEnd EndOf(const IbEnd& end) const {
    CableEnd named = names_.at(end.key);
    if (named.port.empty()) {
      named.port = fmt::format("{}", end.port);
    } else if (end.port != 1) {
      named.port += fmt::format("/{}", end.port);
    }
    return named;
  }

  std::string_view text_;
  std::string file_;
  std::map<std::string, IbNode> nodes_;  // by key
  std::vector<std::string> order_;       // keys, as in the file
  std::string present_;                  // key of the node whose ports follow
  std::vector<IbLink> links_;
  std::map<std::string, CableEnd> names_;  // device and adapter by key
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadIbDiscovery(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
