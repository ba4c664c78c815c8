#include "controller/offline/imports/readers/csv_cables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "controller/offline/files/record_reader.h"
#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using offline::Field;
using offline::RecordReader;

enum Column : std::size_t {
  kADevice,
  kAPort,
  kBDevice,
  kBPort,
  kGbps,
  kAAddress,
  kBAddress,
  kAKind,
  kBKind,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"a_device",  "a_port", "b_device",
                                                           "b_port",    "gbps",   "a_address",
                                                           "b_address", "a_kind", "b_kind"};
constexpr std::size_t kAbsent = ~std::size_t{0};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file)
      : file_(file), records_(text, file, RecordReader::Format::kCommas) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    auto header = records_.Next();
    if (!header) return Propagate(header);
    if (!*header)
      return FailAt(file_, {}, "the file is empty (name the columns in its first line)");
    if (auto done = ReadHeader(**header); !done) return Propagate(done);
    auto done = records_.ForEach([&](std::span<const Field> row) { return ReadRow(row); });
    if (!done) return Propagate(done);
    return std::move(cabling_);
  }

 private:
  Result<void> ReadHeader(std::span<const Field> names) {
    columns_ = names.size();
    position_.fill(kAbsent);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto known = std::ranges::find(kNames, names[i].text);
      if (known == kNames.end()) {
        return records_.FailAt(
            names[i], fmt::format("unknown column {} (the columns are a_device, a_port, b_device, "
                                  "b_port, gbps, a_address, b_address, a_kind and b_kind)",
                                  Quote(names[i].text)));
      }
      std::size_t& position = position_[static_cast<std::size_t>(known - kNames.begin())];
      if (position != kAbsent) {
        return records_.FailAt(
            names[i], fmt::format("a second column {} (remove one)", Quote(names[i].text)));
      }
      position = i;
    }
    for (std::size_t column = kADevice; column <= kBPort; ++column) {
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
    Cable cable;
    cable.at = {row.front().line, row.front().column};
    for (std::size_t column = kADevice; column <= kBPort; ++column) {
      const Field& field = row[position_[column]];
      if (field.text.empty()) {
        return records_.FailAt(field, fmt::format("{} is empty (name it)", kNames[column]));
      }
    }
    cable.a = {std::string(At(row, kADevice)), std::string(At(row, kAPort)), false, {}};
    cable.b = {std::string(At(row, kBDevice)), std::string(At(row, kBPort)), false, {}};
    if (const auto gbps = At(row, kGbps); !gbps.empty()) {
      const auto rate = ParseGbps(gbps);
      if (!rate) return records_.FailAt(row[position_[kGbps]], rate.error().message);
      cable.rate = *rate;
    }
    for (const auto& [column, end] :
         {std::pair(kAAddress, &cable.a), std::pair(kBAddress, &cable.b)}) {
      const auto text = At(row, column);
      if (text.empty()) continue;
      const auto address = ParseInterfaceAddress(text);
      if (!address) return records_.FailAt(row[position_[column]], address.error().message);
      end->address = *address;
    }
    if (auto done = ReadKind(row, kAKind, cable.a.device); !done) return done;
    if (auto done = ReadKind(row, kBKind, cable.b.device); !done) return done;
    cabling_.cables.push_back(std::move(cable));
    return {};
  }

  Result<void> ReadKind(std::span<const Field> row, Column column, const std::string& device) {
    const auto kind = At(row, column);
    if (kind.empty()) return {};
    const Field& field = row[position_[column]];
    if (kind != "switch" && kind != "host") {
      return records_.FailAt(field,
                             fmt::format("kind {} is unknown (write switch or host)", Quote(kind)));
    }
    DeviceFact& fact = cabling_.devices.emplace_back();
    fact.name = device;
    fact.kind = kind == "switch" ? DeviceKind::kSwitch : DeviceKind::kHost;
    fact.at = {field.line, field.column};
    return {};
  }

  std::string_view At(std::span<const Field> row, Column column) const {
    return position_[column] == kAbsent ? std::string_view() : row[position_[column]].text;
  }

  std::string file_;
  RecordReader records_;
  std::size_t columns_ = 0;
  std::array<std::size_t, kColumns> position_{};  // by column
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadCsvCables(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
