#include "common/daemon/config_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "common/daemon/option.pb.h"

namespace espalier::io {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;
using Places = TextFormat::ParseInfoTree;

constexpr std::size_t kMaxConfigBytes = 1 << 20;

class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  explicit FirstError(std::string_view file_name) : file_name_(file_name) {}

  void AddError(int line, int column, const std::string& message) override {
    if (text_) return;
    // protobuf counts from 0, and uses -1 for errors without a line.
    text_ = line < 0 ? fmt::format("{}: {}", file_name_, message)
                     : fmt::format("{}:{}:{}: {}", file_name_, line + 1, column + 1, message);
  }

  const std::optional<std::string>& text() const { return text_; }

 private:
  std::string_view file_name_;
  std::optional<std::string> text_;
};

const Option& RowOf(const FieldDescriptor& field) { return field.options().GetExtension(option); }

int CountOf(const Message& config, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  if (field.is_repeated()) return reflection.FieldSize(config, &field);
  return reflection.HasField(config, &field) ? 1 : 0;
}

// The value of a field as a file writes it. `index` counts those of a repeated field.
std::string ValueOf(const Message& config, const FieldDescriptor& field, int index) {
  std::string text;
  TextFormat::PrintFieldValueToString(config, &field, field.is_repeated() ? index : -1, &text);
  return text;
}

std::string Quoted(std::string_view text) { return fmt::format("\"{}\"", text); }

// "a", "b" or "c"
std::string ListOf(const google::protobuf::RepeatedPtrField<std::string>& values) {
  std::string list;
  for (int i = 0; i < values.size(); ++i) {
    if (i > 0) list += i + 1 == values.size() ? " or " : ", ";
    list += Quoted(values[i]);
  }
  return list;
}

// What is wrong with a value, by the row of its option; empty: nothing.
std::string FaultOf(const Option& row, const std::string& value) {
  if (row.value_size() > 0) {
    const bool is_known = std::ranges::any_of(
        row.value(), [&](const std::string& known) { return value == Quoted(known); });
    return is_known ? "" : fmt::format("unknown value {} (give {})", value, ListOf(row.value()));
  }
  if (row.most() == 0) return "";
  std::uint64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  const bool is_within =
      error == std::errc() && stop == end && number >= row.least() && number <= row.most();
  return is_within ? "" : fmt::format("{} is not in {}..{}", value, row.least(), row.most());
}

// Checks a field by the row of its option, and fills in its default.
Result<void> CheckField(std::string_view file_name, const FieldDescriptor& field,
                        const Places& places, Message& config) {
  const Option& row = RowOf(field);
  const int count = CountOf(config, field);
  for (int i = 0; i < count; ++i) {
    const std::string fault = FaultOf(row, ValueOf(config, field, i));
    if (fault.empty()) continue;
    const auto place = places.GetLocation(&field, field.is_repeated() ? i : -1);
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}:{}: {}: {}", file_name, place.line + 1, place.column + 1,
                            field.name(), fault));
  }
  if (count > 0) return {};
  if (!row.required().empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} is missing ({})", file_name, field.name(), row.required()));
  }
  if (row.default_().empty()) return {};
  const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  TextFormat::Parser().ParseFieldValueFromString(is_text ? Quoted(row.default_()) : row.default_(),
                                                 &field, &config);
  return {};
}

}  // namespace

Result<void> ParseConfig(std::string_view text, std::string_view file_name,
                         google::protobuf::Message& config) {
  if (text.size() > kMaxConfigBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: the file is larger than {} bytes", file_name, kMaxConfigBytes));
  }
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  FirstError errors(file_name);
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(32);
  parser.RecordErrorsTo(&errors);
  Places places;
  parser.WriteLocationsTo(&places);
  const bool parsed = parser.Parse(&input, &config);
  if (errors.text()) return Fail(ErrorCode::kInvalidArgument, *errors.text());
  if (!parsed)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: the file is malformed", file_name));
  const google::protobuf::Descriptor& schema = *config.GetDescriptor();
  for (int i = 0; i < schema.field_count(); ++i) {
    if (auto checked = CheckField(file_name, *schema.field(i), places, config); !checked) {
      return checked;
    }
  }
  return {};
}

Result<void> ReadConfigFile(const std::string& path, google::protobuf::Message& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    return Fail(error == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kNotFound,
                fmt::format("{}: {}", path, std::strerror(error)));
  }
  std::string text(kMaxConfigBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad())
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: cannot read the file", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return ParseConfig(text, path, config);
}

tl::unexpected<Error> FailField(std::string_view file_name, std::string_view field,
                                std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}: {}", file_name, field, what));
}

std::vector<OptionInForce> OptionsInForce(const Message& config) {
  const google::protobuf::Descriptor& schema = *config.GetDescriptor();
  std::vector<OptionInForce> options;
  for (int i = 0; i < schema.field_count(); ++i) {
    const FieldDescriptor& field = *schema.field(i);
    OptionInForce found{.name = field.name(), .values = {}, .can_reload = RowOf(field).reload()};
    // A number of 0 or a `false` that is the default counts as left out.
    const bool is_default = !field.is_repeated() && !RowOf(field).default_().empty();
    const int count = is_default ? 1 : CountOf(config, field);
    for (int j = 0; j < count; ++j) found.values.push_back(ValueOf(config, field, j));
    options.push_back(std::move(found));
  }
  return options;
}

std::string PrintOptions(const std::vector<OptionInForce>& options) {
  std::string text;
  for (const OptionInForce& one : options) {
    for (const std::string& value : one.values) {
      text += fmt::format("{}: {}\n", one.name, value);
    }
  }
  return text;
}

std::vector<std::string> NeedRestart(const std::vector<OptionInForce>& running,
                                     const std::vector<OptionInForce>& read) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(running.size(), read.size()); ++i) {
    if (!read[i].can_reload && running[i].values != read[i].values) names.push_back(read[i].name);
  }
  return names;
}

}  // namespace espalier::io
