#include "controller/offline/imports/readers/netbox_cables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "controller/offline/files/record_reader.h"
#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using io::JsonValue;
using offline::Field;
using offline::RecordReader;

constexpr std::int64_t kKilobit = 1'000;
constexpr std::string_view kInterface = "dcim.interface";

// Why cables are left out, with their names: one remark for each reason.
class LeftOut {
 public:
  void Add(const std::string& reason, std::string name) {
    names_[reason].push_back(std::move(name));
  }
  void Report(Cabling& cabling) const {
    for (const auto& [reason, names] : names_) {
      cabling.remarks.push_back(
          fmt::format("{}: left out, as {}: {}", cabling.file, reason, NameSome(names)));
    }
  }

 private:
  std::map<std::string, std::vector<std::string>> names_;
};

constexpr const char* kPanelReason =
    "they end at a patch panel (give /api/dcim/interfaces/, whose connected_endpoints are beyond "
    "it)";
constexpr const char* kOtherReason = "they do not join interfaces";
constexpr const char* kPlannedReason = "they are not connected yet";
constexpr const char* kBreakoutReason =
    "they have several ends on a side (enter one cable for each lane of a breakout)";

bool IsPanel(std::string_view type) { return type == "dcim.frontport" || type == "dcim.rearport"; }

// ---- The CSV of the import form.

enum Column : std::size_t { kADevice, kAType, kAName, kBDevice, kBType, kBName, kStatus, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {
    "side_a_device", "side_a_type", "side_a_name", "side_b_device",
    "side_b_type",   "side_b_name", "status"};
constexpr std::size_t kAbsent = ~std::size_t{0};

class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view file)
      : file_(file), records_(text, file, RecordReader::Format::kCommas) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    auto header = records_.Next();
    if (!header) return Propagate(header);
    if (!*header) return FailAt(file_, {}, "the file is empty (export the cables)");
    if (auto done = ReadHeader(**header); !done) return Propagate(done);
    auto done = records_.ForEach([&](std::span<const Field> row) { return ReadRow(row); });
    if (!done) return Propagate(done);
    left_out_.Report(cabling_);
    return std::move(cabling_);
  }

 private:
  // Other columns of the form (label, color, length) are of no interest.
  Result<void> ReadHeader(std::span<const Field> names) {
    columns_ = names.size();
    position_.fill(kAbsent);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].text == "Termination A") {
        return records_.FailAt(names[i],
                               "an export of a view does not name the devices (use the columns of "
                               "the import form, or the JSON of /api/dcim/cables/)");
      }
      const auto known = std::ranges::find(kNames, names[i].text);
      if (known == kNames.end()) continue;
      std::size_t& position = position_[static_cast<std::size_t>(known - kNames.begin())];
      if (position != kAbsent) {
        return records_.FailAt(
            names[i], fmt::format("a second column {} (remove one)", Quote(names[i].text)));
      }
      position = i;
    }
    for (std::size_t column = kADevice; column < kStatus; ++column) {
      if (position_[column] != kAbsent) continue;
      return records_.FailAt(names.front(),
                             fmt::format("the column \"{}\" is missing (add it)", kNames[column]));
    }
    return {};
  }

  Result<void> ReadRow(std::span<const Field> row) {
    if (row.size() != columns_) {
      return records_.FailAt(row.back(), fmt::format("the line has {} fields, the first line {} "
                                                     "(write one for each column)",
                                                     row.size(), columns_));
    }
    if (cabling_.cables.size() == kMaxCables) {
      return records_.FailAt(row.front(), "more than 1000000 cables (split the fabric)");
    }
    for (const Column column : {kADevice, kAType, kAName, kBDevice, kBType, kBName}) {
      if (!TextIn(row, column).empty()) continue;
      return records_.FailAt(row[position_[column]],
                             fmt::format("{} is empty (fill it in)", kNames[column]));
    }
    const std::string name =
        fmt::format("{}:{} to {}:{}", TextIn(row, kADevice), TextIn(row, kAName),
                    TextIn(row, kBDevice), TextIn(row, kBName));
    const std::string_view a_type = TextIn(row, kAType);
    const std::string_view b_type = TextIn(row, kBType);
    const std::string_view status = TextIn(row, kStatus);
    if (IsPanel(a_type) || IsPanel(b_type)) {
      left_out_.Add(kPanelReason, name);
    } else if (a_type != kInterface || b_type != kInterface) {
      left_out_.Add(kOtherReason, name);
    } else if (!status.empty() && status != "connected") {
      left_out_.Add(kPlannedReason, name);
    } else {
      Cable cable;
      cable.at = {row.front().line, row.front().column};
      cable.a = {std::string(TextIn(row, kADevice)), std::string(TextIn(row, kAName)), false, {}};
      cable.b = {std::string(TextIn(row, kBDevice)), std::string(TextIn(row, kBName)), false, {}};
      cabling_.cables.push_back(std::move(cable));
    }
    return {};
  }

  std::string_view TextIn(std::span<const Field> row, Column column) const {
    return position_[column] == kAbsent ? std::string_view() : row[position_[column]].text;
  }

  std::string file_;
  RecordReader records_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns> position_{};  // by column
  LeftOut left_out_;
  Cabling cabling_;
};

// ---- The JSON of the API.

// "status": "connected", or {"value": "connected", "label": "Connected"}.
std::string ChoiceOf(const JsonValue& object, std::string_view key) {
  const JsonValue* choice = FindObject(object, key);
  return choice == nullptr ? TextOf(object, key) : TextOf(*choice, "value");
}

class JsonReader {
 public:
  explicit JsonReader(std::string_view file) : file_(file) { cabling_.file = file; }

  Result<Cabling> Read(const JsonValue& root) {
    const JsonValue* results =
        root.kind == JsonValue::Kind::kArray ? &root : FindArray(root, "results");
    if (results == nullptr) {
      return FailAt(file_, PlaceOf(root),
                    "no member \"results\" (give an answer of /api/dcim/cables/ or "
                    "/api/dcim/interfaces/)");
    }
    if (!TextOf(root, "next").empty()) {
      cabling_.remarks.push_back(fmt::format(
          "{}: the answer has further pages (give them, too, or ask with limit=0)", file_));
    }
    for (const JsonValue& item : results->items) {
      const bool is_cable =
          item.Find("a_terminations") != nullptr || item.Find("termination_a") != nullptr;
      if (cabling_.cables.size() == kMaxCables) {
        return FailAt(file_, PlaceOf(item), "more than 1000000 cables (split the fabric)");
      }
      auto done = is_cable ? ReadCable(item) : ReadInterface(item);
      if (!done) return Propagate(done);
    }
    left_out_.Report(cabling_);
    return std::move(cabling_);
  }

 private:
  struct Termination {
    std::string type;
    const JsonValue* object = nullptr;
  };

  // The terminations of a side: a list since 3.3, one before.
  std::vector<Termination> TerminationsOf(const JsonValue& cable, char side) const {
    std::vector<Termination> found;
    if (const JsonValue* list = FindArray(cable, fmt::format("{}_terminations", side))) {
      for (const JsonValue& item : list->items) {
        found.push_back({TextOf(item, "object_type"), FindObject(item, "object")});
      }
      return found;
    }
    const std::string key = fmt::format("termination_{}", side);
    if (const JsonValue* object = FindObject(cable, key)) {
      found.push_back({TextOf(cable, key + "_type"), object});
    }
    return found;
  }

  Result<void> ReadCable(const JsonValue& item) {
    const std::string name = "cable " + TextOf(item, "id");
    const auto a = TerminationsOf(item, 'a');
    const auto b = TerminationsOf(item, 'b');
    if (a.empty() || b.empty()) {
      return FailAt(
          file_, PlaceOf(item),
          fmt::format("{} has an end without terminations (connect it or delete it)", name));
    }
    const std::string status = ChoiceOf(item, "status");
    const auto has_panel = [](const auto& ends) {
      return std::ranges::any_of(ends, [](const Termination& end) { return IsPanel(end.type); });
    };
    const auto has_other = [](const auto& ends) {
      return std::ranges::any_of(ends,
                                 [](const Termination& end) { return end.type != kInterface; });
    };
    const char* reason = !status.empty() && status != "connected" ? kPlannedReason
                         : has_panel(a) || has_panel(b)           ? kPanelReason
                         : has_other(a) || has_other(b)           ? kOtherReason
                         : a.size() > 1 || b.size() > 1           ? kBreakoutReason
                                                                  : nullptr;
    if (reason != nullptr) {
      left_out_.Add(reason, name);
      return {};
    }
    auto a_end = EndOf(a.front().object, item);
    if (!a_end) return Propagate(a_end);
    auto b_end = EndOf(b.front().object, item);
    if (!b_end) return Propagate(b_end);
    cabling_.cables.push_back(
        {std::move(*a_end), std::move(*b_end), std::nullopt, false, PlaceOf(item)});
    return {};
  }

  // An interface with its device.
  Result<CableEnd> EndOf(const JsonValue* object, const JsonValue& owner) const {
    CableEnd end;
    const JsonValue* device = object == nullptr ? nullptr : FindObject(*object, "device");
    if (device != nullptr) end.device = TextOf(*device, "name");
    if (object != nullptr) end.port = TextOf(*object, "name");
    if (!end.device.empty() && !end.port.empty()) return end;
    return FailAt(file_, object == nullptr ? PlaceOf(owner) : PlaceOf(*object),
                  "an interface without its name or its device's (ask the API without brief)");
  }

  Result<void> ReadInterface(const JsonValue& item) {
    auto end = EndOf(&item, item);
    if (!end) return Propagate(end);
    PortFact port;
    port.device = end->device;
    port.name = end->port;
    port.at = PlaceOf(item);
    const std::string speed = TextOf(item, "speed");
    if (!speed.empty()) {
      const auto rate = ParseRateIn(speed, kKilobit);
      if (!rate) return FailAt(file_, PlaceOf(*item.Find("speed")), rate.error().message);
      port.rate = *rate;
    } else if (const std::string type = ChoiceOf(item, "type");
               type.find("gbase") != std::string::npos) {
      const auto rate = ParseGbps(type.substr(0, type.find("gbase")));  // "100gbase-x-qsfp28"
      if (rate) port.rate = *rate;
    }
    cabling_.ports.push_back(std::move(port));
    return ReadEndpoints(item, *end);
  }

  Result<void> ReadEndpoints(const JsonValue& item, const CableEnd& own) {
    const JsonValue* endpoints = FindArray(item, "connected_endpoints");
    if (endpoints == nullptr || endpoints->items.empty()) return {};
    const std::string type = TextOf(item, "connected_endpoints_type");
    const std::string name = fmt::format("{}:{}", own.device, own.port);
    if (!type.empty() && type != kInterface) {
      left_out_.Add(kOtherReason, name);
      return {};
    }
    if (endpoints->items.size() > 1) {
      left_out_.Add(kBreakoutReason, name);
      return {};
    }
    auto far = EndOf(&endpoints->items.front(), item);
    if (!far) return Propagate(far);
    cabling_.cables.push_back({own, std::move(*far), std::nullopt, false, PlaceOf(item)});
    return {};
  }

  std::string file_;
  LeftOut left_out_;
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadNetboxCables(std::string_view text, std::string_view file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json =
      first != std::string_view::npos && (text[first] == '{' || text[first] == '[');
  if (!is_json) return CsvReader(text, file).Read();
  const auto root = ParseLargeJson(text, file);
  if (!root) return tl::unexpected<Error>(root.error());
  return JsonReader(file).Read(*root);
}

}  // namespace espalier::imports
